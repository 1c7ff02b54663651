//! Requests on the control socket.

use weir_protocol as protocol;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "request",
    help: "JSON lines on the control socket",
    run,
    tokens: &[
        b"{\"version\":1,\"request\":",
        b"\"stats\"",
        b"{\"show\":{\"what\":\"routes\"",
        b"{\"change\":{\"verb\":\"route add\",\"changes\":[",
        b"{\"reload\":{",
        b"{\"trace\":{\"count\":1",
        b"{\"capture\":{\"point\":\"wan\"",
        b"\"filter\":\"\"",
        b"\"dry_run\":true",
        b"null",
        b"[[[[[[[[",
        b"{\"a\":{\"a\":",
        b"4294967296",
        b"-1",
        b"1e400",
        b"\\ud800",
        b"}}",
    ],
    text: true,
    inputs: 400_000,
    deep: 4,
};

fn run(input: &[u8]) -> bool {
    let hex = protocol::to_hex(input);
    assert_eq!(protocol::from_hex(&hex).as_deref(), Some(input));
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = protocol::from_hex(text);
    }
    match protocol::read_call(input) {
        Ok(request) => {
            // Whoever may only read gets nothing that changes.
            assert!(protocol::Rights::ALL.allow(&request));
            assert_eq!(protocol::Rights::READ.allow(&request), !request.changes());
            again(&request);
            true
        }
        Err(said) => {
            assert!(!said.is_empty(), "refused without a reason");
            false
        }
    }
}

/// What was read and is written is read as the same again.
fn again(request: &protocol::Request) {
    let call = protocol::Call { version: protocol::VERSION, request: request.clone() };
    let read = protocol::line(&call).map_err(|error| error.to_string()).and_then(|line| protocol::read_call(&line));
    // Numbers of JSON values may lose their last digits on the way.
    assert_eq!(read.map(|read| std::mem::discriminant(&read)), Ok(std::mem::discriminant(request)));
}
