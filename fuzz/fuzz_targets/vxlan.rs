#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let target = weir_fuzz::targets::target("vxlan").expect("a known target");
    (target.run)(input);
});
