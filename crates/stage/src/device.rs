//! The text that names a device in a configuration: `kind:argument,argument,key=value`.

use crate::port::PortError;

/// The key of a port that looks like an option of its device.
const MTU: &str = "mtu";

/// A device text, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceText<'a> {
    text: &'a str,
    /// What kind of port it is: what stands before the first colon.
    pub kind: &'a str,
    arguments: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> DeviceText<'a> {
    /// Takes a text apart that has up to `arguments` arguments and any of the options `keys`, each at most once.
    ///
    /// The MTU is no option of any device, but a key of the port, whatever drives it. The pieces are separated by commas. The first is always an argument, however it looks; a later one is an option if it
    /// begins with one of `keys` and an equals sign.
    ///
    /// # Errors
    ///
    /// Too many arguments, an option that is unknown or occurs twice; the message says which, and what there is.
    pub fn parse(text: &'a str, arguments: usize, keys: &[&str]) -> Result<DeviceText<'a>, PortError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut device = DeviceText { text, kind, arguments: Vec::new(), options: Vec::new() };
        for (n, piece) in rest.split(',').enumerate() {
            match piece.split_once('=').filter(|_| n > 0) {
                Some((key, value)) if key.trim() == MTU => {
                    let remedy = format!("write it as a key of the port, mtu = {}", value.trim());
                    return Err(device.wrong(piece, "is no option of a device", &remedy));
                }
                Some((key, value)) if keys.contains(&key.trim()) => device.add_option(key.trim(), value.trim())?,
                Some((key, _)) if device.arguments.len() >= arguments => return Err(device.unknown(key, keys)),
                _ if device.arguments.len() < arguments || rest.is_empty() => device.arguments.push(piece.trim()),
                _ => {
                    let problem = format!("has more than the {arguments} arguments that {kind} takes");
                    return Err(device.wrong(piece, &problem, "write options as key=value"));
                }
            }
        }
        Ok(device)
    }

    fn add_option(&mut self, key: &'a str, value: &'a str) -> Result<(), PortError> {
        if self.options.iter().any(|&(other, _)| other == key) {
            return Err(self.wrong(key, "is given twice", "leave one out"));
        }
        self.options.push((key, value));
        Ok(())
    }

    fn unknown(&self, key: &str, keys: &[&str]) -> PortError {
        let remedy = match weir_config::nearest(key, keys.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the options are {}", keys.join(", ")),
        };
        self.wrong(key, &format!("is no option of {}", self.kind), &remedy)
    }

    /// Argument `n`, where there is one and it is not empty.
    pub fn argument(&self, n: usize) -> Option<&'a str> {
        self.arguments.get(n).copied().filter(|text| !text.is_empty())
    }

    /// The value of an option.
    pub fn option(&self, key: &str) -> Option<&'a str> {
        self.options.iter().find(|&&(other, _)| other == key).map(|&(_, value)| value)
    }

    /// The value of an option, read by `read`, which returns what is wrong with the text as a phrase that follows it, and what
    /// to do: `("is not a number", "write it as in 7")`.
    ///
    /// # Errors
    ///
    /// What `read` says, with the device and the option named.
    pub fn option_as<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, (String, String)>,
    ) -> Result<Option<T>, PortError> {
        let Some(value) = self.option(key) else { return Ok(None) };
        let wrong = |(problem, remedy): (String, String)| self.wrong(&format!("{key}={value}"), &problem, &remedy);
        read(value).map(Some).map_err(wrong)
    }

    /// The value of an option that is a whole number within bounds.
    ///
    /// # Errors
    ///
    /// It is no number, or out of bounds.
    pub fn number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, PortError> {
        self.option_as(key, |text| {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| {
                (
                    "is not allowed".to_owned(),
                    format!("write a whole number from {least} to {most}, as in {key}={least}"),
                )
            })
        })
    }

    /// The option `mac`: an Ethernet address of one host.
    ///
    /// # Errors
    ///
    /// It is no Ethernet address, a group's, or zero.
    pub fn mac(&self) -> Result<Option<[u8; 6]>, PortError> {
        self.option_as("mac", |text| {
            let remedy = || "write it as in mac=02:00:00:00:00:01".to_owned();
            let mac = <weir_config::MacAddress as weir_config::Scalar>::parse(text)
                .map_err(|malformed| (malformed.problem, remedy()))?
                .octets();
            match mac {
                [0, 0, 0, 0, 0, 0] => Err(("is nobody's address".to_owned(), remedy())),
                [first, ..] if first & 1 == 1 => Err(("is the address of a group".to_owned(), remedy())),
                _ => Ok(mac),
            }
        })
    }

    /// An error about a part of the text: the problem is a phrase that follows it, the remedy an imperative.
    pub fn wrong(&self, part: &str, problem: &str, remedy: &str) -> PortError {
        PortError(format!("device \"{}\": \"{part}\" {problem}; {remedy}", self.text))
    }
}

/// A locally administered Ethernet address that the same name always gets, for ports without hardware.
pub fn local_mac(name: &str) -> [u8; 6] {
    // FNV-1a, 64 bits: the same on every machine and in every version.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["timing", "mac", "size"];

    #[test]
    fn takes_texts_apart() {
        let device = DeviceText::parse("pcap:in.pcap, out.pcap ,timing=keep", 2, KEYS).unwrap();
        assert_eq!((device.kind, device.argument(0), device.argument(1)), ("pcap", Some("in.pcap"), Some("out.pcap")));
        assert_eq!((device.option("timing"), device.option("mac")), (Some("keep"), None));
        let device = DeviceText::parse("pcap:,out.pcap", 2, KEYS).unwrap();
        assert_eq!((device.argument(0), device.argument(1), device.argument(2)), (None, Some("out.pcap"), None));
        let device = DeviceText::parse("pcap:timing=1,size=9000", 2, KEYS).unwrap();
        assert_eq!((device.argument(0), device.argument(1)), (Some("timing=1"), None));
        assert_eq!(device.number("size", 68, 9198).unwrap(), Some(9000));
        let device = DeviceText::parse("null", 0, KEYS).unwrap();
        assert_eq!((device.kind, device.argument(0)), ("null", None));
        let device = DeviceText::parse("pcap:a,b=c", 2, KEYS).unwrap();
        assert_eq!(device.argument(1), Some("b=c"));
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text| DeviceText::parse(text, 2, KEYS).unwrap_err().0;
        assert_eq!(
            error("pcap:a,b,c"),
            "device \"pcap:a,b,c\": \"c\" has more than the 2 arguments that pcap takes; write options as key=value"
        );
        assert_eq!(
            error("pcap:a,b,timin=x"),
            "device \"pcap:a,b,timin=x\": \"timin\" is no option of pcap; did you mean timing?"
        );
        assert_eq!(
            error("pcap:a,b,size=1,size=2"),
            "device \"pcap:a,b,size=1,size=2\": \"size\" is given twice; leave one out"
        );
        assert!(error("pcap:a,b,colour=x").ends_with("the options are timing, mac, size"));
        // It would be the name of a file else.
        for text in ["pcap:a,mtu=9000", "pcap:a,b,mtu=9000"] {
            let remedy = "\"mtu=9000\" is no option of a device; write it as a key of the port, mtu = 9000";
            assert_eq!(error(text), format!("device \"{text}\": {remedy}"));
        }
    }

    #[test]
    fn checks_values() {
        fn device(text: &str) -> DeviceText<'_> {
            DeviceText::parse(text, 2, KEYS).unwrap()
        }
        for size in ["67", "9199", "", "-1", "1.5", "x"] {
            let text = format!("pcap:a,size={size}");
            let error = device(&text).number("size", 68, 9198).unwrap_err().0;
            let wanted = format!("\"size={size}\" is not allowed; write a whole number from 68 to 9198");
            assert!(error.contains(&wanted), "{error}");
        }
        assert_eq!(device("pcap:a,mac=02:00:00:00:00:07").mac().unwrap(), Some([2, 0, 0, 0, 0, 7]));
        assert_eq!(device("pcap:a").mac().unwrap(), None);
        let error = |text: &str| device(text).mac().unwrap_err().0;
        assert!(error("pcap:a,mac=01:00:00:00:00:07").contains("is the address of a group"));
        assert!(error("pcap:a,mac=00:00:00:00:00:00").contains("is nobody's address"));
        assert!(error("pcap:a,mac=7").contains("is not a MAC address"));
    }

    #[test]
    fn local_addresses_are_local_and_single() {
        for name in ["", "wan", "lan", "a-very-long-name-of-a-port"] {
            assert_eq!(local_mac(name)[0], 0x02);
            assert_eq!(local_mac(name), local_mac(name));
        }
        assert_ne!(local_mac("wan"), local_mac("lan"));
    }
}
