//! What `weir bench cpp` measures of a function.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::function::PortInfo;
use crate::instance::Instance;

/// One case that `weir bench cpp` measures: a configuration over memory ports, and the packets to send through it.
pub struct Case {
    /// Its name: `fib-410k`.
    pub name: &'static str,
    /// A sentence of help.
    pub help: &'static str,
    /// Files that it needs; the user says where they lie.
    pub needs: &'static [&'static str],
    /// The configuration, as a script without its `engine` declaration and those of the ports `in` and `out`. The first function is the
    /// one whose tables are prepared; others, and the joints or cables between them, are what it is chained to.
    pub script: String,
    /// Keys of both ports beside their names, devices and addresses, as a script has them: `vrf = "blue"`.
    pub port_keys: &'static str,
    /// Numbers that the measurer may choose.
    pub knobs: &'static [Knob],
    /// Makes the traffic, and whatever must be in the tables before it: given the instance, the ports, and what was chosen.
    pub prepare: Prepare,
}

impl Case {
    /// A case that sends one packet again and again, see [`Traffic::plain`], through a configuration that needs no more than its script.
    pub fn plain(name: &'static str, help: &'static str, script: String) -> Case {
        let prepare: Prepare = |_, _, _| Ok(Traffic::plain());
        Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
    }
}

/// The script of so many functions one behind the other, with devices of a kind (`joint:`) between them. `function` declares one, given its number
/// and the names of the ports where packets come in and leave.
pub fn chain(functions: usize, device: &str, function: impl Fn(usize, &str, &str) -> String) -> String {
    let port = |end: &str, n: usize| format!("port {{ name = \"{end}{n}\", device = \"{device}{n}\" }}\n");
    let ports = (1..functions).flat_map(|n| [port("a", n), port("b", n)]);
    let declared = (0..functions).map(|n| {
        let from = if n == 0 { "in".to_owned() } else { format!("b{n}") };
        let to = if n + 1 == functions { "out".to_owned() } else { format!("a{}", n + 1) };
        function(n, &from, &to) + "\n"
    });
    ports.chain(declared).collect()
}

/// A number of a [`Case`] that the measurer may choose: the size of a table, the length of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name: `prefixes`.
    pub name: &'static str,
    /// A sentence of help.
    pub help: &'static str,
    /// Its value unless another is chosen.
    pub usual: u64,
    /// The least.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

/// The length of frames, as standard Ethernet has them.
pub const FRAME: Knob = Knob {
    name: "frame",
    help: "length of frames, bytes, with their check sequence",
    usual: 64,
    least: 64,
    most: 1518,
};

/// Bytes of the check sequence at the end of a frame, which a device adds and takes off.
const CHECK_SEQUENCE: usize = 4;

/// What the measurer chose for a [`Case`].
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The folder of the needed files.
    pub folder: Option<PathBuf>,
    /// A number for each knob, within its bounds.
    pub numbers: BTreeMap<&'static str, u64>,
}

impl Chosen {
    /// The number chosen for a knob of the case; 0 for one that it does not have.
    pub fn number(&self, knob: &str) -> u64 {
        self.numbers.get(knob).copied().unwrap_or(0)
    }

    /// Bytes of the frames that were chosen by [`FRAME`], without their check sequence; the least where the case does not have that.
    pub fn frame_len(&self) -> usize {
        self.number(FRAME.name).max(FRAME.least) as usize - CHECK_SEQUENCE
    }
}

/// See [`Case::prepare`].
pub type Prepare = fn(&dyn Instance, &[PortInfo], &Chosen) -> Result<Traffic, String>;

/// Bytes of a frame, from its start, that a [`Case`] writes.
pub const HEADER: usize = 128;

/// The packets of a [`Case`], and how to know that they came out right.
///
/// Frames may differ in length, in any of their first [`HEADER`] bytes and in kind: a case mixes kinds by the number of the frame. Of frames of
/// one length the source keeps every 8-byte word in which any two differ, so it is cheaper where a kind that is rare has a length of its own.
pub struct Traffic {
    /// The `n`-th frame: given its number, writes its bytes to a cleared buffer and returns its length. Of a longer frame it writes the
    /// first [`HEADER`] bytes; the others are zero, or what some packet left there. So are all behind 64 where no frame of the case
    /// has anything there: the source of such a case touches a single cache line.
    pub frame: MakeFrame,
    /// How many frames make a round; then they repeat.
    pub frames: u64,
    /// Whether a frame that came out is right.
    pub check: CheckFrame,
}

impl Traffic {
    /// One UDP packet of 60 bytes (64 with its frame check sequence), which must come out as it went in but for its Ethernet addresses.
    pub fn plain() -> Traffic {
        const FRAME: [u8; 60] = {
            let mut frame = [0; 60];
            // Ethernet, IPv4 without options, 46 bytes, TTL 64, UDP; addresses and ports are of no interest here.
            let header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17];
            let mut n = 0;
            while n < header.len() {
                frame[n] = header[n];
                n += 1;
            }
            frame
        };
        let frame = |_: u64, bytes: &mut [u8; HEADER]| {
            bytes.iter_mut().zip(FRAME).for_each(|(to, from)| *to = from);
            FRAME.len()
        };
        let check = |bytes: &[u8]| match bytes.get(12..) {
            Some(rest) if rest == FRAME.get(12..).unwrap_or_default() => Ok(()),
            _ => Err(format!("{} bytes came out that are not those that went in", bytes.len())),
        };
        Traffic { frame: Box::new(frame), frames: 1, check: Box::new(check) }
    }
}

/// See [`Traffic::frame`].
pub type MakeFrame = Box<dyn FnMut(u64, &mut [u8; HEADER]) -> usize + Send>;

/// See [`Traffic::check`].
pub type CheckFrame = Box<dyn FnMut(&[u8]) -> Result<(), String> + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_chain_stand_one_behind_the_other() {
        let one = |functions| chain(functions, "joint:", |n, from, to| format!("f{n} {from} {to}"));
        assert_eq!(one(1), "f0 in out\n");
        let ports = "port { name = \"a1\", device = \"joint:1\" }\nport { name = \"b1\", device = \"joint:1\" }\n";
        assert_eq!(one(2), format!("{ports}f0 in a1\nf1 b1 out\n"));
    }
}
