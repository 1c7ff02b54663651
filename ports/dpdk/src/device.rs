//! The device strings of the configuration, for the devices that DPDK drives.
//!
//! | device | what it is |
//! |---|---|
//! | `af_xdp:IF` | a Linux interface by AF_XDP |
//! | `af_packet:IF` | a Linux interface by AF_PACKET |
//! | `tap:NAME` | a TAP interface that is made for the occasion |
//! | `null` | receives zeros without end, or with `null:blank=0` what is left in buffers, swallows what is sent; `null:no-rx=1` is silent |
//! | `vdev:DEVARGS` | any virtual device of DPDK's, in DPDK's own words |
//! | `memif:ID` | shared memory with another process; `role=server` or `client`, `socket=PATH` |
//! | `vhost:PATH` | the host's end of a virtio link; `client=1` connects instead of listening |
//! | `virtio_user:PATH` | the guest's end of a virtio link; `server=1` listens instead of connecting |
//! | `pci:0000:3b:00.0` | a network card |
//!
//! Options follow after commas, `key=value`; which keys a device has is in [`DeviceError`]'s answer.

use std::fmt;

/// A device, as the configuration names it. `Display` gives the string back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Device {
    kind: Kind,
    name: String,
    options: Vec<(String, String)>,
}

/// Kinds of device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A Linux interface by AF_XDP.
    AfXdp,
    /// A Linux interface by AF_PACKET.
    AfPacket,
    /// A TAP interface.
    Tap,
    /// Zeros in, nothing out.
    Null,
    /// Any virtual device of DPDK's.
    Vdev,
    /// Shared memory.
    Memif,
    /// The host's end of a virtio link.
    Vhost,
    /// The guest's end of a virtio link.
    VirtioUser,
    /// A network card.
    Pci,
}

/// What is known about a kind before a device of it exists.
struct Facts {
    kind: Kind,
    /// The word in front of the colon.
    word: &'static str,
    /// What stands behind the colon; empty when nothing needs to.
    name: &'static str,
    /// DPDK's driver; empty where the devargs or the bus decide.
    driver: &'static str,
    /// The options it takes. Those that Weir sets by itself (queues, sizes) are not among them.
    options: &'static [&'static str],
}

const FACTS: [Facts; 9] = [
    Facts {
        kind: Kind::AfXdp,
        word: "af_xdp",
        name: "INTERFACE",
        driver: "net_af_xdp",
        options: &["start_queue", "busy_budget", "xdp_prog", "force_copy"],
    },
    Facts {
        kind: Kind::AfPacket,
        word: "af_packet",
        name: "INTERFACE",
        driver: "net_af_packet",
        options: &["qdisc_bypass"],
    },
    Facts { kind: Kind::Tap, word: "tap", name: "NAME", driver: "net_tap", options: &["mac"] },
    Facts {
        kind: Kind::Null,
        word: "null",
        name: "",
        driver: "net_null",
        options: &["size", "copy", "no-rx", "blank"],
    },
    Facts { kind: Kind::Vdev, word: "vdev", name: "DEVARGS", driver: "", options: &[] },
    Facts {
        kind: Kind::Memif,
        word: "memif",
        name: "ID",
        driver: "net_memif",
        options: &["role", "socket", "secret", "zero-copy", "mac", "rsize", "bsize"],
    },
    Facts { kind: Kind::Vhost, word: "vhost", name: "PATH", driver: "net_vhost", options: &["client", "tso"] },
    Facts {
        kind: Kind::VirtioUser,
        word: "virtio_user",
        name: "PATH",
        driver: "net_virtio_user",
        options: &["server", "mac", "queue_size", "packed_vq", "in_order", "mrg_rxbuf"],
    },
    Facts { kind: Kind::Pci, word: "pci", name: "DOMAIN:BUS:DEVICE.FUNCTION", driver: "", options: &[] },
];

/// Why a device string is not one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeviceError {
    device: String,
    reason: String,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device \"{}\": {}", self.device, self.reason)
    }
}

impl std::error::Error for DeviceError {}

/// The words that device strings of this crate start with.
pub fn words() -> impl Iterator<Item = &'static str> {
    FACTS.iter().map(|facts| facts.word)
}

impl Device {
    /// Reads a device string.
    ///
    /// # Errors
    ///
    /// When the word in front of the colon is none of [`words`], or what follows does not fit it; the
    /// message says what would.
    pub fn parse(text: &str) -> Result<Device, DeviceError> {
        let error = |reason: String| DeviceError { device: text.to_owned(), reason };
        let (word, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(facts) = FACTS.iter().find(|facts| facts.word == word) else {
            let known: Vec<_> = words().collect();
            return Err(error(format!("\"{word}\" is no kind of device: it is one of {}", known.join(", "))));
        };
        if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(error("has a blank in it: remove it".into()));
        }
        facts.read(rest).map_err(error)
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the kind is called on: the interface, path, identifier, address or raw devargs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of an option, if it was given.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find_map(|(k, value)| (k == key).then_some(value.as_str()))
    }

    /// Every option that was given, in order.
    #[cfg(feature = "dpdk")]
    pub(crate) fn options(&self) -> &[(String, String)] {
        &self.options
    }

    /// Whether the number of descriptors may be chosen when it is opened.
    ///
    /// # Errors
    ///
    /// What to write instead, where its rings have their length from elsewhere.
    pub fn takes_descriptors(&self) -> Result<(), &'static str> {
        match self.kind {
            Kind::Pci | Kind::Vdev | Kind::Tap => Ok(()),
            Kind::Memif => Err("write the device's rsize=N, the logarithm of its length, instead"),
            Kind::VirtioUser => Err("write the device's queue_size=N instead"),
            Kind::Vhost | Kind::AfXdp | Kind::AfPacket | Kind::Null => Err("leave it out"),
        }
    }

    /// The Linux interface that it takes over; `None` for devices that have none or make their own.
    pub fn interface(&self) -> Option<&str> {
        matches!(self.kind, Kind::AfXdp | Kind::AfPacket).then_some(self.name.as_str())
    }

    /// The UNIX socket that it binds, `None` where it connects to one or has none.
    pub fn listens_at(&self) -> Option<&str> {
        let on = |key| self.option(key).is_some_and(|value| value == "1");
        match self.kind {
            Kind::Vhost if !on("client") => Some(&self.name),
            Kind::VirtioUser if on("server") => Some(&self.name),
            Kind::Memif if self.option("role") == Some("server") => Some(self.memif_socket()),
            _ => None,
        }
    }

    /// The UNIX socket that it connects to and that must be there when it starts. (A vhost client waits
    /// for its server.)
    pub fn connects_to(&self) -> Option<&str> {
        match self.kind {
            Kind::VirtioUser if self.option("server") != Some("1") => Some(&self.name),
            Kind::Memif if self.option("role") != Some("server") => Some(self.memif_socket()),
            _ => None,
        }
    }

    /// The socket of a memif: `@NAME` is an abstract one, without a file.
    pub(crate) fn memif_socket(&self) -> &str {
        self.option("socket").unwrap_or("/run/memif.sock")
    }

    /// The name of DPDK's driver; `None` for a network card, whose bus decides.
    pub fn driver(&self) -> Option<&str> {
        match self.kind {
            Kind::Pci => None,
            Kind::Vdev => self.name.split(',').next().map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit())),
            kind => FACTS.iter().find(|facts| facts.kind == kind).map(|facts| facts.driver),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = FACTS.iter().find(|facts| facts.kind == self.kind).map_or("", |facts| facts.word);
        f.write_str(word)?;
        let mut before = ":";
        if !self.name.is_empty() {
            write!(f, ":{}", self.name)?;
            before = ",";
        }
        for (key, value) in &self.options {
            write!(f, "{before}{key}={value}")?;
            before = ",";
        }
        Ok(())
    }
}

impl Facts {
    fn read(&self, rest: &str) -> Result<Device, String> {
        let (name, options) = match (self.kind, self.name) {
            // DPDK's own words, commas and all.
            (Kind::Vdev, _) => (rest, ""),
            (_, "") => ("", rest),
            _ => rest.split_once(',').unwrap_or((rest, "")),
        };
        if name.is_empty() && !self.name.is_empty() {
            return Err(format!("{} is missing: write {}:{}", self.name, self.word, self.name));
        }
        check_name(self.kind, name)?;
        let mut device = Device { kind: self.kind, name: name.to_owned(), options: Vec::new() };
        for option in options.split(',').filter(|_| !options.is_empty()) {
            let (key, value) = self.option(option)?;
            if device.option(key).is_some() {
                return Err(format!("has the option {key} twice: keep one"));
            }
            device.options.push((key.to_owned(), value.to_owned()));
        }
        Ok(device)
    }

    fn option<'a>(&self, option: &'a str) -> Result<(&'a str, &'a str), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        if key == "mtu" {
            return Err(format!(
                "\"{option}\" is not an option of a device: write it as a key of the port, mtu = {value}"
            ));
        }
        if !self.options.contains(&key) {
            return Err(match self.options {
                [] => format!("takes no options, and \"{option}\" is one"),
                known => format!("\"{key}\" is not an option of {}: it has {}", self.word, known.join(", ")),
            });
        }
        check_option(key, value).map(|()| (key, value))
    }
}

/// What is wrong with the value of an option.
fn check_option(key: &str, value: &str) -> Result<(), String> {
    let number = |low: u32, high: u32| match value.parse::<u32>() {
        Ok(n) if (low..=high).contains(&n) => Ok(()),
        _ => Err(format!("{key} is \"{value}\" and must be a number from {low} to {high}")),
    };
    let one_of = |words: &[&str]| match words.contains(&value) {
        true => Ok(()),
        false => Err(format!("{key} is \"{value}\" and must be one of {}", words.join(", "))),
    };
    match key {
        "role" => one_of(&["server", "client"]),
        "zero-copy" => one_of(&["yes", "no"]),
        "client" | "server" | "tso" | "packed_vq" | "in_order" | "mrg_rxbuf" | "no-rx" | "copy" | "blank"
        | "force_copy" | "qdisc_bypass" => one_of(&["0", "1"]),
        "start_queue" => number(0, 1023),
        "busy_budget" => number(0, 65_535),
        "size" => number(14, 9216),
        "bsize" => number(256, 65_535),
        "rsize" => number(1, 14),
        "queue_size" => number(64, 32_768),
        "mac" => parse_mac(value).map(|_| ()).ok_or_else(|| {
            format!("mac is \"{value}\" and must be six pairs of hexadecimal digits, aa:bb:cc:dd:ee:ff")
        }),
        _ if value.is_empty() => Err(format!("{key} has no value: write {key}=VALUE")),
        _ => Ok(()),
    }
}

fn check_name(kind: Kind, name: &str) -> Result<(), String> {
    match kind {
        Kind::AfXdp | Kind::AfPacket | Kind::Tap => check_interface(name),
        Kind::Memif => match name.parse::<u32>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("\"{name}\" must be the link's number, 0 to 4294967295")),
        },
        Kind::Vhost | Kind::VirtioUser => check_path(name),
        Kind::Pci => check_pci(name),
        Kind::Vdev | Kind::Null => Ok(()),
    }
}

/// What the kernel takes for the name of an interface (`dev_valid_name`).
fn check_interface(name: &str) -> Result<(), String> {
    const LONGEST: usize = 15;
    if name.len() > LONGEST || name == "." || name == ".." || name.contains(['/', ':', '=']) {
        return Err(format!("\"{name}\" cannot be an interface: at most {LONGEST} characters, no / : ="));
    }
    Ok(())
}

/// The room of `sun_path` (unix(7)), less its NUL.
const LONGEST_PATH: usize = 107;

fn check_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err(format!("\"{path}\" must be an absolute path: it starts with /"));
    }
    if path.len() > LONGEST_PATH {
        return Err(format!("the path is longer than the {LONGEST_PATH} characters of a UNIX socket"));
    }
    Ok(())
}

/// `DDDD:BB:DD.F`, as lspci -D prints it.
fn check_pci(address: &str) -> Result<(), String> {
    let hex = |text: &str, length| text.len() == length && text.bytes().all(|c| c.is_ascii_hexdigit());
    let whole = || {
        let (domain, rest) = address.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        (hex(domain, 4) && hex(bus, 2) && hex(device, 2) && matches!(function.as_bytes(), [b'0'..=b'7'])).then_some(())
    };
    whole().ok_or_else(|| format!("\"{address}\" is not a PCI address: write it as lspci -D does, 0000:3b:00.0"))
}

/// Six pairs of hexadecimal digits with colons.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut pairs = text.split(':');
    for byte in &mut mac {
        let pair = pairs.next().filter(|pair| pair.len() == 2 && pair.bytes().all(|c| c.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    pairs.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests;
