//! An OpenFlow switch without traffic, for controllers and `ovs-ofctl` to try:
//!
//! ```sh
//! cargo run -p weir-flow-tables --example openflow_switch -- 127.0.0.1:6653
//! ovs-ofctl -O OpenFlow13 show tcp:127.0.0.1:6653
//! ```
//!
//! It prints the address that it listens on (port 0 takes any), serves one thread per connection, and ends when its
//! standard input does.

#![allow(clippy::disallowed_methods, reason = "an example with sockets reads a clock")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_flow_tables::agent::{Agent, ConnectionId, Options};
use weir_flow_tables::{Identity, Switch};
use weir_openflow::port::Port;

/// The agent, and when its clock began.
struct Shared {
    agent: Mutex<Agent>,
    began: Instant,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Agent, u64) -> T) -> T {
        let now = self.began.elapsed().as_nanos() as u64;
        act(&mut self.agent.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6653".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    let mut agent = Agent::new(Switch::new(Identity::default()), Options::default());
    for number in 1..=4 {
        let port = Port {
            number,
            mac: [2, 0, 0, 0, 0, number as u8],
            name: format!("p{number}"),
            current_speed: 10_000_000,
            max_speed: 10_000_000,
            ..Port::default()
        };
        agent.set_port(port, 0);
    }
    let shared = Arc::new(Shared { agent: Mutex::new(agent), began: Instant::now() });
    let accepting = Arc::clone(&shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&accepting);
            std::thread::spawn(move || serve(stream, &shared));
        }
    });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

/// One connection, until one of the two closes it.
fn serve(stream: TcpStream, shared: &Shared) {
    let Some(id) = shared.with(|agent, now| agent.connect(now)) else { return };
    let _ = talk(stream, shared, id);
    shared.with(|agent, _| agent.disconnect(id));
}

fn talk(mut stream: TcpStream, shared: &Shared, id: ConnectionId) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = vec![0; 64 << 10];
    let mut waiting: Vec<u8> = Vec::new();
    loop {
        let output = shared.with(|agent, now| {
            agent.tick(now);
            agent.outcomes();
            agent.output(id).to_vec()
        });
        stream.write_all(&output)?;
        let closing = shared.with(|agent, now| {
            agent.sent(id, output.len(), now);
            let taken = agent.receive(id, &waiting, now);
            waiting.drain(..taken);
            (agent.output(id).is_empty(), agent.closing(id))
        });
        match closing {
            (true, Some(_)) => return Ok(()),
            (true, None) if waiting.is_empty() => {}
            _ => continue,
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => waiting.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
}
