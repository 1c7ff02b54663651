//! The names of the language: protocols, services, fields and their values.

use crate::ast::Protocol;

/// LLC SAPs and EtherTypes with encapsulations of their own.
pub(crate) const SAP_OSI: u32 = 0xfe;
pub(crate) const SAP_IP: u32 = 0x06;
pub(crate) const SAP_NETBEUI: u32 = 0xf0;
pub(crate) const SAP_IPX: u32 = 0xe0;
pub(crate) const SAP_STP: u32 = 0x42;
pub(crate) const TYPE_IP: u32 = 0x0800;
pub(crate) const TYPE_ARP: u32 = 0x0806;
pub(crate) const TYPE_RARP: u32 = 0x8035;
pub(crate) const TYPE_IP6: u32 = 0x86dd;
pub(crate) const TYPE_DECNET: u32 = 0x6003;
pub(crate) const TYPE_ATALK: u32 = 0x809b;
pub(crate) const TYPE_AARP: u32 = 0x80f3;
pub(crate) const TYPE_IPX: u32 = 0x8137;
pub(crate) const TYPE_NS: u32 = 0x0600;

/// IP protocol numbers (IANA) that the lowering names.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SCTP: u8 = 132;
pub(crate) const IP6_FRAGMENT: u32 = 44;
pub(crate) const ICMP6: u32 = 58;

/// The protocol that a word of the language means.
pub(crate) fn protocol(word: &str) -> Option<Protocol> {
    Some(match word {
        "ether" | "link" => Protocol::Link,
        "ip" => Protocol::Ip,
        "ip6" => Protocol::Ip6,
        "arp" => Protocol::Arp,
        "rarp" => Protocol::Rarp,
        "atalk" => Protocol::Type(TYPE_ATALK),
        "decnet" => Protocol::Type(TYPE_DECNET),
        "sca" => Protocol::Type(0x6007),
        "lat" => Protocol::Type(0x6004),
        "mopdl" => Protocol::Type(0x6001),
        "moprc" => Protocol::Type(0x6002),
        "aarp" => Protocol::Sap(TYPE_AARP),
        "iso" => Protocol::Sap(SAP_OSI),
        "stp" => Protocol::Sap(SAP_STP),
        "ipx" => Protocol::Sap(SAP_IPX),
        "netbeui" => Protocol::Sap(SAP_NETBEUI),
        "clnp" => Protocol::Osi(0x81),
        "esis" | "es-is" => Protocol::Osi(0x82),
        "isis" | "is-is" => Protocol::Osi(0x83),
        "icmp" => Protocol::AboveIp(1),
        "igmp" => Protocol::AboveIp(2),
        "igrp" => Protocol::AboveIp(9),
        "vrrp" | "carp" => Protocol::AboveIp(112),
        "tcp" => Protocol::AboveBoth(TCP.into()),
        "udp" => Protocol::AboveBoth(UDP.into()),
        "sctp" => Protocol::AboveBoth(SCTP.into()),
        "pim" => Protocol::AboveBoth(103),
        "esp" => Protocol::Extension(50),
        "ah" => Protocol::Extension(51),
        "icmp6" => Protocol::Icmp6,
        _ => return None,
    })
}

/// Words of the language that belong to other link layers or to packet sockets.
pub(crate) fn is_unsupported(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "action",
        "addr1",
        "addr2",
        "addr3",
        "addr4",
        "address1",
        "address2",
        "address3",
        "address4",
        "bcc",
        "byte",
        "connectmsg",
        "csnp",
        "dir",
        "direction",
        "dpc",
        "fddi",
        "fisu",
        "gateway",
        "geneve",
        "hdpc",
        "hfisu",
        "hlssu",
        "hmsu",
        "hopc",
        "hsio",
        "hsls",
        "ifindex",
        "ifname",
        "iih",
        "ilmic",
        "inbound",
        "l1",
        "l2",
        "lane",
        "llc",
        "lsp",
        "lssu",
        "lsu",
        "metac",
        "metaconnect",
        "msu",
        "oam",
        "oamf4",
        "oamf4ec",
        "oamf4sc",
        "on",
        "opc",
        "outbound",
        "ppp",
        "protochain",
        "psnp",
        "ra",
        "radio",
        "reason",
        "rnr",
        "rset",
        "rulenum",
        "ruleset",
        "sc",
        "sio",
        "slip",
        "sls",
        "snp",
        "srnr",
        "subrulenum",
        "subtype",
        "ta",
        "tr",
        "type",
        "vci",
        "vpi",
        "wlan",
    ];
    WORDS.binary_search(&word).is_ok()
}

/// The number that a name for a field, a type or a flag stands for.
pub(crate) fn constant(word: &str) -> Option<u32> {
    Some(match word {
        "icmptype" | "icmp6type" | "icmp-echoreply" => 0,
        "icmpcode" | "icmp6code" | "icmp6-destinationunreach" | "tcp-fin" => 1,
        "icmp6-packettoobig" | "tcp-syn" => 2,
        "icmp-unreach" | "icmp6-timeexceeded" => 3,
        "icmp-sourcequench" | "icmp6-parameterproblem" | "tcp-rst" => 4,
        "icmp-redirect" => 5,
        "icmp-echo" | "tcp-push" => 8,
        "icmp-routeradvert" => 9,
        "icmp-routersolicit" => 10,
        "icmp-timxceed" => 11,
        "icmp-paramprob" => 12,
        "icmp-tstamp" | "tcpflags" => 13,
        "icmp-tstampreply" => 14,
        "icmp-ireq" => 15,
        "icmp-ireqreply" | "tcp-ack" => 16,
        "icmp-maskreq" => 17,
        "icmp-maskreply" => 18,
        "tcp-urg" => 32,
        "tcp-ece" => 64,
        "tcp-cwr" | "icmp6-echo" => 128,
        "icmp6-echoreply" => 129,
        "icmp6-multicastlistenerquery" => 130,
        "icmp6-multicastlistenerreportv1" => 131,
        "icmp6-multicastlistenerdone" => 132,
        "icmp6-routersolicit" => 133,
        "icmp6-routeradvert" => 134,
        "icmp6-neighborsolicit" => 135,
        "icmp6-neighboradvert" => 136,
        "icmp6-redirect" => 137,
        "icmp6-routerrenum" => 138,
        "icmp6-nodeinformationquery" => 139,
        "icmp6-nodeinformationresponse" => 140,
        "icmp6-ineighbordiscoverysolicit" => 141,
        "icmp6-ineighbordiscoveryadvert" => 142,
        "icmp6-multicastlistenerreportv2" => 143,
        "icmp6-homeagentdiscoveryrequest" => 144,
        "icmp6-homeagentdiscoveryreply" => 145,
        "icmp6-mobileprefixsolicit" => 146,
        "icmp6-mobileprefixadvert" => 147,
        "icmp6-certpathsolicit" => 148,
        "icmp6-certpathadvert" => 149,
        "icmp6-multicastrouteradvert" => 151,
        "icmp6-multicastroutersolicit" => 152,
        "icmp6-multicastrouterterm" => 153,
        _ => return None,
    })
}

/// The EtherType or LLC SAP of a name after `ether proto`.
pub(crate) fn link_protocol(name: &str) -> Option<u32> {
    match protocol(name) {
        Some(Protocol::Ip) => Some(TYPE_IP),
        Some(Protocol::Ip6) => Some(TYPE_IP6),
        Some(Protocol::Arp) => Some(TYPE_ARP),
        Some(Protocol::Rarp) => Some(TYPE_RARP),
        Some(Protocol::Type(number) | Protocol::Sap(number)) => Some(number),
        _ if name == "loopback" => Some(0x9000),
        _ => None,
    }
}

/// The number of an IP protocol (IANA, by the names of Debian's /etc/protocols).
pub(crate) fn ip_protocol(name: &str) -> Option<u32> {
    Some(match name {
        "icmp" => 1,
        "igmp" => 2,
        "ipencap" => 4,
        "tcp" => TCP.into(),
        "egp" => 8,
        "igp" => 9,
        "udp" => UDP.into(),
        "dccp" => 33,
        "ipv6" => 41,
        "ipv6-route" => 43,
        "ipv6-frag" => IP6_FRAGMENT,
        "rsvp" => 46,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "ipv6-icmp" => ICMP6,
        "ipv6-nonxt" => 59,
        "ipv6-opts" => 60,
        "eigrp" => 88,
        "ospf" => 89,
        "pim" => 103,
        "vrrp" => 112,
        "l2tp" => 115,
        "sctp" => SCTP.into(),
        "udplite" => 136,
        "mpls-in-ip" => 137,
        _ => return None,
    })
}

/// The port of a service and, where it has only one, its transport protocol (IANA, by the names of
/// Debian's /etc/services).
pub(crate) fn service(name: &str) -> Option<(u16, Option<u8>)> {
    const TCP_ONLY: Option<u8> = Some(TCP);
    const UDP_ONLY: Option<u8> = Some(UDP);
    Some(match name {
        "ftp-data" => (20, TCP_ONLY),
        "ftp" => (21, TCP_ONLY),
        "ssh" => (22, TCP_ONLY),
        "telnet" => (23, TCP_ONLY),
        "smtp" => (25, TCP_ONLY),
        "domain" => (53, None),
        "bootps" => (67, UDP_ONLY),
        "bootpc" => (68, UDP_ONLY),
        "tftp" => (69, UDP_ONLY),
        "http" | "www" => (80, TCP_ONLY),
        "kerberos" => (88, None),
        "ntp" => (123, UDP_ONLY),
        "snmp" => (161, None),
        "snmp-trap" => (162, None),
        "bgp" => (179, TCP_ONLY),
        "https" => (443, None),
        "isakmp" => (500, UDP_ONLY),
        "syslog" => (514, None),
        "domain-s" => (853, None),
        "radius" => (1812, None),
        "radius-acct" => (1813, None),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_words_are_found_and_no_others() {
        assert!(is_unsupported("geneve") && is_unsupported("action") && is_unsupported("wlan"));
        assert!(!is_unsupported("ip") && !is_unsupported("vlan"));
    }

    fn lines(path: &str) -> Vec<Vec<String>> {
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("skipped: {path} is missing (Debian package netbase)");
            return Vec::new();
        };
        text.lines()
            .map(|line| line.split('#').next().unwrap_or_default())
            .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter(|words| words.len() >= 2)
            .collect()
    }

    #[test]
    fn protocols_agree_with_the_system() {
        for words in lines("/etc/protocols") {
            let number: u32 = words[1].parse().unwrap();
            if let Some(ours) = ip_protocol(&words[0]) {
                assert_eq!(ours, number, "{}", words[0]);
            }
        }
    }

    #[test]
    fn services_agree_with_the_system() {
        let mut found = std::collections::BTreeMap::<String, Vec<(u16, String)>>::new();
        for words in lines("/etc/services") {
            let (port, transport) = words[1].split_once('/').unwrap();
            for name in words[..1].iter().chain(&words[2..]) {
                let entry = (port.parse().unwrap(), transport.to_owned());
                found.entry(name.clone()).or_default().push(entry);
            }
        }
        for (name, entries) in found {
            let Some((port, transport)) = service(&name) else {
                continue;
            };
            assert!(entries.iter().all(|(p, _)| *p == port), "{name}");
            let has = |word: &str| entries.iter().any(|(_, t)| t == word);
            let expected = match (has("tcp"), has("udp")) {
                (true, true) => None,
                (true, false) => Some(TCP),
                _ => Some(UDP),
            };
            assert_eq!(transport, expected, "{name}");
        }
    }
}
