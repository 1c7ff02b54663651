use super::*;

fn reason(text: &str) -> String {
    Device::parse(text).unwrap_err().to_string()
}

#[test]
fn every_kind_is_read_and_written_back() {
    let strings = [
        "af_xdp:veth-wan",
        "af_xdp:eth0,start_queue=3,busy_budget=0",
        "af_packet:lan0",
        "tap:dtap0",
        "null",
        "null:size=128,copy=1",
        "vdev:net_pcap0,rx_pcap=/tmp/a.pcap,tx_pcap=/tmp/b.pcap",
        "memif:7,role=server,socket=/run/x.sock",
        "vhost:/run/v.sock",
        "vhost:/run/v.sock,client=1",
        "virtio_user:/run/v.sock,server=1",
        "pci:0000:3b:00.0",
    ];
    for text in strings {
        assert_eq!(Device::parse(text).map(|device| device.to_string()), Ok(text.to_owned()));
    }
    assert_eq!(words().count(), 9);
}

#[test]
fn the_parts_are_told() {
    let device = Device::parse("memif:7,role=server,socket=/run/x.sock").unwrap();
    assert_eq!((device.kind(), device.name()), (Kind::Memif, "7"));
    assert_eq!(device.option("role"), Some("server"));
    assert_eq!(device.option("secret"), None);
    assert_eq!(device.driver(), Some("net_memif"));
    assert_eq!(Device::parse("vdev:net_ring0,size=4").unwrap().driver(), Some("net_ring"));
    assert_eq!(Device::parse("pci:0000:3b:00.0").unwrap().driver(), None);
}

#[test]
fn who_listens_and_who_connects() {
    let listens = |text| Device::parse(text).unwrap().listens_at().map(str::to_owned);
    let connects = |text| Device::parse(text).unwrap().connects_to().map(str::to_owned);
    assert_eq!(listens("vhost:/v"), Some("/v".into()));
    assert_eq!(listens("vhost:/v,client=0"), Some("/v".into()));
    assert_eq!(listens("vhost:/v,client=1"), None);
    assert_eq!(listens("virtio_user:/v"), None);
    assert_eq!(listens("virtio_user:/v,server=1"), Some("/v".into()));
    assert_eq!(listens("memif:0,role=server"), Some("/run/memif.sock".into()));
    assert_eq!(listens("memif:0"), None);
    assert_eq!(connects("virtio_user:/v"), Some("/v".into()));
    assert_eq!(connects("virtio_user:/v,server=1"), None);
    assert_eq!(connects("memif:0,socket=@x"), Some("@x".into()));
    assert_eq!(connects("memif:0,role=server"), None);
    assert_eq!(connects("vhost:/v,client=1"), None, "it waits for its server");
}

#[test]
fn who_takes_descriptors() {
    let takes = |text| Device::parse(text).unwrap().takes_descriptors();
    let cases = ["pci:0000:3b:00.0", "vdev:net_ring0", "tap:a"];
    assert!(cases.into_iter().all(|text| takes(text) == Ok(())));
    assert!(takes("memif:0").unwrap_err().contains("rsize"));
    assert!(takes("virtio_user:/v").unwrap_err().contains("queue_size"));
    assert!(["af_xdp:a", "af_packet:a", "vhost:/v", "null"].into_iter().all(|text| takes(text) == Err("leave it out")));
}

#[test]
fn only_taken_over_interfaces_are_interfaces() {
    let interface = |text| Device::parse(text).unwrap().interface().map(str::to_owned);
    assert_eq!(interface("af_xdp:a"), Some("a".into()));
    assert_eq!(interface("af_packet:a"), Some("a".into()));
    assert_eq!(interface("tap:a"), None);
    assert_eq!(interface("null"), None);
}

#[test]
fn what_is_wrong_is_said_precisely() {
    let cases = [
        ("", "\"\" is no kind of device"),
        ("afxdp:a", "one of af_xdp, af_packet"),
        ("af_xdp", "write af_xdp:INTERFACE"),
        ("af_xdp:", "write af_xdp:INTERFACE"),
        ("af_xdp:a-name-of-sixteen", "at most 15 characters"),
        ("tap:a/b", "no / : ="),
        ("af_xdp:a b", "blank"),
        ("af_packet:a,framesz=1", "\"framesz\" is not an option of af_packet: it has qdisc_bypass"),
        (
            "af_packet:a,mtu=9000",
            "\"mtu=9000\" is not an option of a device: write it as a key of the port, mtu = 9000",
        ),
        ("pci:0000:3b:00.0,x=1", "takes no options, and \"x=1\" is one"),
        ("pci:3b:00.0", "0000:3b:00.0"),
        ("pci:0000:3b:00.8", "0000:3b:00.0"),
        ("pci:0000:3g:00.0", "0000:3b:00.0"),
        ("memif:x", "0 to 4294967295"),
        ("memif:1,role=master", "role is \"master\" and must be one of server, client"),
        ("memif:1,role=server,role=client", "role twice"),
        ("memif:1,secret", "secret has no value"),
        ("vhost:v.sock", "absolute path"),
        ("vhost:/v,client=yes", "client is \"yes\" and must be one of 0, 1"),
        ("virtio_user:/v,mac=1:2:3", "aa:bb:cc:dd:ee:ff"),
        ("null:size=5", "a number from 14 to 9216"),
        ("null:blank=no", "blank is \"no\" and must be one of 0, 1"),
        ("vdev:", "write vdev:DEVARGS"),
    ];
    for (text, part) in cases {
        let said = reason(text);
        assert!(said.starts_with(&format!("device \"{text}\": ")), "{said}");
        assert!(said.contains(part), "{said} should say {part}");
    }
    let long = format!("vhost:/{}", "x".repeat(LONGEST_PATH));
    assert!(reason(&long).contains("107 characters"));
    assert!(Device::parse(&long[..long.len() - 1]).is_ok(), "exactly the longest");
}

#[test]
fn macs() {
    assert_eq!(parse_mac("02:00:0a:0B:fF:01"), Some([2, 0, 10, 11, 255, 1]));
    for wrong in ["", "02:00:0a:0b:ff", "02:00:0a:0b:ff:01:02", "2:0:a:b:f:1", "02-00-0a-0b-ff-01", "02:00:0a:0b:ff:+1"]
    {
        assert_eq!(parse_mac(wrong), None, "{wrong}");
    }
}

proptest::proptest! {
    #[test]
    fn nothing_panics_and_what_is_read_is_read_again(text in "(af_xdp|tap|null|memif|vhost|pci|vdev)?:?[a-z0-9_:,=./]{0,24}") {
        if let Ok(device) = Device::parse(&text) {
            assert_eq!(Device::parse(&device.to_string()), Ok(device));
        }
    }
}
