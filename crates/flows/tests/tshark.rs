//! What is written is what tshark reads: fields of samples, flows, counters and options, and that nothing is malformed.

use std::fs;
use std::process::Command;

use weir_flows::{Cache, EndReason, Ipfix, Limits, Names, Sflow};
use weir_stage::{FlowHop, Output, Sample};

use crate::{hop, icmp6, interface, sample, tcp4, tunnelled};

/// What tshark says of datagrams to a port, in its verbose form; `None` where it is not installed.
fn tshark(port: u16, decode: &str, datagrams: &[Vec<u8>]) -> Option<String> {
    let mut file = Vec::new();
    // A classic file of raw IPv4 packets.
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    file[4..8].copy_from_slice(&[2, 0, 4, 0]);
    for datagram in datagrams {
        let len = (28 + datagram.len()) as u32;
        for word in [1_700_000_000, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0x45, 0]);
        file.extend((len as u16).to_be_bytes());
        file.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        for word in [40_000, port, 8 + datagram.len() as u16, 0] {
            file.extend(word.to_be_bytes());
        }
        file.extend(datagram);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("datagrams.pcap");
    fs::write(&path, file).unwrap();
    let output =
        Command::new("tshark").arg("-r").arg(&path).args(["-V", "-d", &format!("udp.port=={port},{decode}")]).output();
    let Ok(output) = output else {
        println!("skipped: tshark is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("Malformed"), "{text}");
    Some(text)
}

fn expect(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "no line \"{line}\" in\n{text}");
    }
}

#[test]
fn samples_and_counters_of_sflow() {
    let mut sflow = Sflow::new("192.0.2.1".parse().unwrap(), 9, 1000);
    sflow.sample(&sample(&tcp4(0x12), 0x0800, 218, hop(Some("198.51.100.7"))));
    let nowhere = FlowHop { output: Output::Nowhere, ..hop(None) };
    sflow.sample(&Sample { pool: 6000, ..sample(&tcp4(0x10), 0x0800, 218, nowhere) });
    sflow.sample(&tunnelled(&tcp4(0x10), hop(Some("2001:db8::7"))));
    sflow.counters(&interface());
    let datagrams = sflow.take(12_345);
    assert_eq!(datagrams.len(), 1);
    let Some(text) = tshark(6343, "sflow", &datagrams) else { return };
    expect(
        &text,
        &[
            "Datagram version: 5",
            "Agent address: 192.0.2.1",
            "Sub-agent ID: 9",
            "Sequence number: 1",
            "SysUptime: 12 seconds (12345ms)",
            "NumSamples: 4",
            "Sampling rate: 1 out of 1000 packets",
            "Sample pool: 5000 total packets",
            "Sample pool: 6000 total packets",
            "Dropped packets: 3",
            "Input interface (ifIndex): 5",
            "Output interface: 0x00000007",
            "Frame Length: 222",
            "Payload stripped: 4",
            "Header protocol: IPv4 (11)",
            "Frame Length: 258",
            "Payload stripped: 58",
            "Next hop: 2001:db8::7",
            "Outgoing 802.1Q VLAN: 200",
            "Next hop: 198.51.100.7",
            "Next hop source mask: 24",
            "Next hop destination mask: 16",
            "Incoming 802.1Q VLAN: 100",
            "Source Port: 1000",
            "Interface index: 5",
            "Interface Type: 135",
            "Input Octets: 1100",
            "Input Packets: 11",
            "Output Octets: 5000000000",
            "Output Packets: 22",
            "Promiscuous Mode: 2",
        ],
    );
}

#[test]
fn flows_and_options_of_ipfix() {
    let mut cache = Cache::new(Limits { flows: 8, active: 60_000, inactive: 15_000 });
    for (time, flags) in [(1_700_000_000_000, 0x02), (1_700_000_000_250, 0x10)] {
        assert_eq!(cache.add(&sample(&tcp4(flags), 0x0800, 218, hop(Some("198.51.100.7"))), time), None);
    }
    cache.add(&sample(&tcp4(0x01), 0x0800, 218, hop(Some("2001:db8::7"))), 1_700_000_000_000);
    cache.add(&sample(&icmp6(), 0x86dd, 74, hop(Some("fe80::7"))), 1_700_000_000_000);
    cache.add(&tunnelled(&tcp4(0x01), hop(None)), 1_700_000_000_000);
    // No IP packet.
    assert_eq!(cache.add(&sample(&[0; 28], 0x0806, 60, hop(None)), 1_700_000_000_000), None);
    assert_eq!(cache.load(), (4, 8));
    let mut ipfix = Ipfix::new(77, 1000);
    let vrfs = vec!["default".to_owned(), "red".to_owned(), "blue".to_owned()];
    ipfix.describe(&Names { interfaces: vec![(4, "lan.100".to_owned()), (6, "wan".to_owned())], vrfs });
    let mut ended = cache.expire(1_700_000_015_250);
    assert_eq!((ended.len(), cache.load().0), (4, 0));
    ended.sort_by_key(|flow| (flow.key.addresses, flow.packets));
    assert!(ended.iter().all(|flow| flow.reason == EndReason::Idle));
    ended.iter().for_each(|flow| ipfix.flow(flow));
    let messages = ipfix.take(1_700_000_016);
    let Some(text) = tshark(4739, "cflow", &messages) else { return };
    expect(
        &text,
        &[
            "Version: 10",
            "FlowSequence: 0",
            "Observation Domain Id: 77",
            "SrcAddr: 10.0.0.1",
            "DstAddr: 192.0.2.9",
            "NextHop: 198.51.100.7",
            "NextHop: 2001:db8::7",
            "NextHop: fe80::7",
            "SrcMask: 24",
            "DstMask: 16",
            "InputInt: 5",
            "OutputInt: 7",
            "Ingress VRFID: 0",
            "Egress VRFID: 2",
            "Vlan Id: 100",
            "Dot1q Customer Vlan Id: 9",
            "Post Vlan Id: 200",
            "Post Dot1q Customer Vlan Id: 7",
            "SrcPort: 1000",
            "DstPort: 443",
            "Protocol: TCP (6)",
            "IP ToS: 0x28",
            "TCP Flags: 0x0012, ACK, SYN",
            "Packets: 2",
            "Octets: 400",
            "SrcAddr: 2001:db8::1",
            "Octets: 56",
            "Flow End Reason: Idle timeout (1)",
            "IfName: lan.100",
            "VRFname: blue",
            "Sampling Population: 1000",
            "Sampling interval: 1000",
        ],
    );
    // ICMPv6 of type 128, and the duration of what came twice.
    assert!(text.contains("128") && text.contains("0.250000000 seconds"), "{text}");
}
