//! A device of which the user says what it keeps.

use weir_config::{Kind, config};

use crate::fields::{Field, unknown};
use crate::hash::Hasher;
use crate::kept::Kept;
use crate::model::{Identity, Model};
use crate::packet::{Packet, Side};

config! {
    /// What identifies packets before and behind a device: on both sides as many parts, the first of one side the same as the first
    /// of the other, and so on. A part is a field (`src`, `gre`, `id`, ...: those of `--by`), `packet` or `inner` (the outermost or
    /// innermost IP packet but for TTL, checksum and ECN), `payload` (what stands behind the transport header of UDP or TCP), or bytes
    /// of one of `frame`, `ip`, `inner-ip`, `transport`, `payload`: `frame[42:2]` are two from the 43rd on.
    pub struct MatchConfig {
        /// The parts in a packet as it was sent.
        pub sent: Vec<String> = required, live, length(1..=32);
        /// The same in a packet as it was received.
        pub received: Vec<String> = required, live, length(1..=32);
    }
}

/// The declaration of what identifies packets, in a script.
pub fn match_kind() -> Kind {
    Kind::single("match", MatchConfig::schema())
}

/// A part of what identifies a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Field(Field),
    /// The outermost or innermost IP packet, less what changes from hop to hop.
    Packet,
    Inner,
    /// All behind the transport header.
    Payload,
    Bytes {
        from: Base,
        at: usize,
        len: usize,
    },
}

/// What bytes are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Frame,
    Ip,
    InnerIp,
    Transport,
    Payload,
}

const BASES: [(&str, Base); 5] = [
    ("frame", Base::Frame),
    ("ip", Base::Ip),
    ("inner-ip", Base::InnerIp),
    ("transport", Base::Transport),
    ("payload", Base::Payload),
];

/// A device of which the user says what it keeps, in the fields of packets before and behind it. The script runs once, not for each
/// packet.
#[derive(Clone, Debug)]
pub struct Custom {
    sent: Vec<Part>,
    received: Vec<Part>,
}

impl Custom {
    /// By what a script declares.
    ///
    /// # Errors
    ///
    /// All that is wrong, a sentence each.
    pub fn new(config: &MatchConfig) -> Result<Custom, Vec<String>> {
        let mut wrong = Vec::new();
        let mut parts = |side: &str, texts: &[String]| -> Vec<Part> {
            let mut part = |text: &String| {
                Part::parse(text).map_err(|problem| wrong.push(format!("match.{side}: {problem}"))).ok()
            };
            texts.iter().filter_map(&mut part).collect()
        };
        let (sent, received) = (parts("sent", &config.sent), parts("received", &config.received));
        if config.sent.len() != config.received.len() {
            wrong.push(format!(
                "match: {} parts were sent and {} received; name as many on both sides, those that are the same in the same place",
                config.sent.len(),
                config.received.len()
            ));
        }
        if wrong.is_empty() { Ok(Custom { sent, received }) } else { Err(wrong) }
    }
}

impl Part {
    fn parse(text: &str) -> Result<Part, String> {
        match text {
            "packet" => return Ok(Part::Packet),
            "inner" => return Ok(Part::Inner),
            "payload" => return Ok(Part::Payload),
            "subscriber" => {
                return Err(
                    "\"subscriber\" is known to the models bng and lwaftr only; use svlan and cvlan, or gre".to_owned()
                );
            }
            "way" => return Err("\"way\" is known to the model lwaftr only".to_owned()),
            _ => {}
        }
        let Some((base, range)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) else {
            return Field::named(text)
                .map(Part::Field)
                .ok_or_else(|| format!("{}, or packet, inner, payload, and bytes as in frame[42:2]", unknown(text)));
        };
        let bases = BASES.map(|(name, _)| name).join(", ");
        let from = BASES.iter().find(|(name, _)| *name == base).map(|(_, base)| *base);
        let from = from.ok_or_else(|| format!("\"{base}\" in \"{text}\" has no bytes; there are {bases}"))?;
        let numbers = range.split_once(':').and_then(|(at, len)| Some((at.parse().ok()?, len.parse().ok()?)));
        match numbers {
            Some((at, len)) if len > 0 && at < 65_536 && len < 65_536 => Ok(Part::Bytes { from, at, len }),
            _ => Err(format!("\"{text}\" is no range of bytes; write the first and how many, as in {base}[42:2]")),
        }
    }

    /// Writes what a packet has there, with its length, or says why it has nothing.
    fn write(self, packet: &Packet<'_>, model: &Custom, to: &mut Vec<u8>) -> Result<(), Identity> {
        let at = to.len();
        to.extend_from_slice(&[0; 4]);
        match self {
            Part::Field(field) => field.write(packet, model, to),
            Part::Packet | Part::Inner => {
                let layers = packet.layers();
                let ip = if self == Part::Packet { layers.outer() } else { layers.inner() };
                let kept = Kept::of(&ip.ok_or(Identity::Unidentified)?, packet, None).ok_or(Identity::Cut)?;
                kept.pieces().iter().for_each(|piece| to.extend_from_slice(piece));
            }
            Part::Payload if packet.data.len() < packet.length as usize => return Err(Identity::Cut),
            Part::Payload => to.extend_from_slice(Base::Payload.bytes(packet).ok_or(Identity::Unidentified)?),
            Part::Bytes { from, at, len } => {
                let bytes = from.bytes(packet).ok_or(Identity::Unidentified)?;
                let cut = packet.data.len() < packet.length as usize;
                let why = if cut { Identity::Cut } else { Identity::Unidentified };
                to.extend_from_slice(bytes.get(at..at + len).ok_or(why)?);
            }
        }
        let length = to.len() - at - 4;
        if length == 0 && !matches!(self, Part::Payload) {
            return Err(Identity::Unidentified);
        }
        to.iter_mut().skip(at).zip((length as u32).to_be_bytes()).for_each(|(byte, length)| *byte = length);
        Ok(())
    }
}

impl Base {
    /// The bytes from there on; of what IP carries, not what pads the frame.
    fn bytes<'a>(self, packet: &Packet<'a>) -> Option<&'a [u8]> {
        let layers = packet.layers();
        match self {
            Base::Frame => Some(packet.data),
            Base::Ip => layers.outer().and_then(|ip| packet.data.get(ip.at()..ip.end())),
            Base::InnerIp => layers.inner().and_then(|ip| packet.data.get(ip.at()..ip.end())),
            Base::Transport => packet.data.get(layers.transport()?.1..layers.inner()?.end()),
            Base::Payload => {
                let (_, at) = layers.transport()?;
                let header = match (layers.udp(), layers.tcp()) {
                    (Some(_), _) => 8,
                    (_, Some(tcp)) => tcp.header_len(),
                    _ => 0,
                };
                packet.data.get(at + header..layers.inner()?.end())
            }
        }
    }
}

impl Model for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn identify(&self, packet: &Packet<'_>, side: Side, hasher: &Hasher) -> Identity {
        let parts = if side == Side::Sent { &self.sent } else { &self.received };
        let mut bytes = Vec::with_capacity(256);
        for part in parts {
            if let Err(why) = part.write(packet, self, &mut bytes) {
                return why;
            }
        }
        Identity::Key(hasher.key(&[&bytes]))
    }

    fn unidentified(&self) -> &'static str {
        "do not have all that the script knows them by"
    }
}
