//! What an interface is, and what it stands on.

use std::fmt;
use std::net::IpAddr;

use weir_wire::MacAddr;

use crate::InterfaceId;
use crate::tags::Tags;

/// A port of the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its index in the whole configuration.
    pub index: u16,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Bytes of the longest IP packet that it carries, behind whatever tags.
    pub mtu: u16,
    /// Bytes of tags for which its device has room beside that.
    pub tag_room: u16,
    /// Whether its link is up.
    pub link: bool,
}

/// What an interface is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Its name, which no other has.
    pub name: String,
    /// The position of its port; `None` for a loopback.
    pub port: Option<u8>,
    /// Its tags, which no other on its port has.
    pub tags: Tags,
    /// The number of its VRF.
    pub vrf: u16,
    /// Bytes of the longest IP packet; `None`: as its port.
    pub mtu: Option<u16>,
    /// Whether it is meant to be up.
    pub enabled: bool,
    /// The tunnel that it is the mouth of: packets that routes lead there are for its function, which sends them on itself. It has no port.
    pub tunnel: Option<Tunnel>,
}

/// A tunnel of the function that an interface is the mouth of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Where packets go that are in it.
    pub end: IpAddr,
    /// Bytes of such packets that fit.
    pub mtu: u16,
    /// Bytes that stand in front of what went in.
    pub overhead: u16,
}

impl Tunnel {
    /// Bytes of the longest packet that may go in, where the tunnel goes over a link of this MTU.
    pub fn fits(self, link: u16) -> u16 {
        self.mtu.min(link).saturating_sub(self.overhead)
    }
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number. It is used again only after all workers have forgotten it.
    pub id: InterfaceId,
    /// What it is meant to be.
    pub wanted: Fresh,
    /// Its MAC address; that of nobody for a loopback.
    pub mac: MacAddr,
    /// Bytes of the longest IP packet.
    pub mtu: u16,
    /// Whether packets may come and go by it: its port's link is up, and it is meant to be.
    pub up: bool,
}

impl Interface {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.wanted.name
    }

    /// Its tags.
    pub fn tags(&self) -> Tags {
        self.wanted.tags
    }

    /// Whether it has no port: a loopback, or an inlet.
    pub fn is_virtual(&self) -> bool {
        self.wanted.port.is_none()
    }
}

/// Why an interface cannot be; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another one has the name.
    Name(String),
    /// This other one has the same tags on the same port.
    Tags(String),
    /// There is no such port.
    NoPort,
    /// There are as many as there is room for.
    Full(usize),
    /// Interfaces that were there a moment ago have their numbers still.
    Busy,
    /// The table of tags has no room for these.
    Crowded,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Name(name) => write!(f, "there is an interface or a port \"{name}\" already"),
            Refused::Tags(name) => write!(f, "interface \"{name}\" has the same tags on the same port"),
            Refused::NoPort => f.write_str("there is no such port"),
            Refused::Full(most) => {
                write!(f, "there are {most} interfaces, as many as limits.interfaces allows; raise it")
            }
            Refused::Busy => {
                f.write_str("the numbers of interfaces that were deleted a moment ago are not free yet; try again")
            }
            Refused::Crowded => f.write_str("the table of tags has no room for these; choose others"),
        }
    }
}

impl std::error::Error for Refused {}
