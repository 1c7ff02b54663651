//! Users between two ports, `in` and `out`, known by the tags of their frames: the configuration, and the frames.

/// The function that shapes users between two ports.
pub const SHAPER: &str = "qos";

/// The gateway: the function, and its cases of a packet from and to a customer, with shaping.
pub const GATEWAY: (&str, [&str; 2]) = ("bng", ["up-4k-qos", "down-4k-qos"]);

/// Inner tags of each outer one.
const INNER: u32 = 2_048;

/// Users at most.
pub const MOST: u32 = 32_768;

/// Bytes of a frame without its check sequence.
pub const FRAME: usize = 60;

/// What users may send, and what the scheduler may hold.
#[derive(Clone, Copy, Debug)]
pub struct Users {
    /// How many.
    pub users: u32,
    /// The rate of each, bit/s.
    pub rate: u64,
    /// The bucket of each, bytes.
    pub bucket: u64,
    /// The port's rate, bit/s.
    pub port: u64,
    /// Packets that wait at most.
    pub buffers: u32,
}

impl Users {
    /// The configuration, without ports.
    pub fn script(&self) -> String {
        let Users { users, rate, bucket, port, buffers } = self;
        let (outer, inner) = (users.div_ceil(INNER), users.min(&INNER));
        format!(
            "engine {{ idle = \"spin\" }}\n{SHAPER} {{ from = \"in\", to = \"out\",\n  users = {{ {{ tags = \"1-{outer}.1-{inner}\", \
             profile = \"user\" }} }},\n  scheduler = {{ rate = \"{port} bit/s\", users = {}, buffers = {buffers},\n    \
             profiles = {{ user = {{ tb_rate = \"{rate} bit/s\", tb_size = \"{bucket} B\" }} }} }} }}",
            (outer * inner).max(users + 1)
        )
    }
}

/// Writes the frame of a user: two tags, IPv4, UDP.
pub fn write(user: u32, bytes: &mut [u8]) -> usize {
    let [outer, inner] = [user / INNER + 1, user % INNER + 1].map(|id| (id as u16).to_be_bytes());
    let start = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, outer[0], outer[1], 0x81, 0, inner[0], inner[1], 8, 0];
    // An IPv4 header without options, UDP.
    let header = [0x45, 0, 0, 38, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1];
    bytes.iter_mut().zip(start.into_iter().chain(header)).for_each(|(to, from)| *to = from);
    FRAME
}

/// Whose a frame is; one that has no user says `u32::MAX`.
pub fn user_of(bytes: &[u8]) -> u32 {
    match bytes.get(14..20) {
        Some(&[outer, outer_low, 0x81, 0, inner, inner_low]) => {
            let id = |high, low| u32::from(u16::from_be_bytes([high, low]) & 0xfff).wrapping_sub(1);
            id(outer, outer_low).wrapping_mul(INNER).wrapping_add(id(inner, inner_low))
        }
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_say_whose_they_are() {
        for user in 0..MOST {
            let mut bytes = [0; 64];
            assert_eq!(write(user, &mut bytes), FRAME);
            assert_eq!(user_of(&bytes), user);
        }
        assert_eq!((user_of(&[]), user_of(&[0; 64])), (u32::MAX, u32::MAX));
    }
}
