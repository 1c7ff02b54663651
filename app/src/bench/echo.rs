//! An echo by UDP through the kernel: what it costs to sleep until a packet comes, against looking for it all the time.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bench::{Better, Figure};

/// How long a datagram may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends datagrams of `size` bytes one after the other to an echo and back, for as long as `window`. With `poll` both ends ask the
/// kernel again and again; else they sleep until it wakes them.
#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(super) fn figures(poll: bool, size: usize, window: Duration) -> Result<Vec<Figure>, String> {
    let failed = |error: std::io::Error| format!("the sockets fail: {error}");
    let (near, far) = (open(poll).map_err(failed)?, open(poll).map_err(failed)?);
    near.connect(far.local_addr().map_err(failed)?).map_err(failed)?;
    far.connect(near.local_addr().map_err(failed)?).map_err(failed)?;
    let done = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let mut bytes = vec![0; size];
            // A core each, where there are two.
            weir_engine::pin(weir_engine::last_core()).map_err(|error| error.to_string())?;
            while !done.load(Ordering::Relaxed) {
                if let Some(length) = receive(&far, &mut bytes, &done).map_err(failed)? {
                    far.send(bytes.get(..length).unwrap_or_default()).map_err(failed)?;
                }
            }
            Ok::<(), String>(())
        });
        let times =
            weir_engine::pin(0).map_err(|error| error.to_string()).and_then(|()| go_round(&near, size, window, &done));
        done.store(true, Ordering::Relaxed);
        // What wakes an echo that sleeps.
        let _ = near.send(&[]);
        echo.join().unwrap_or_else(|_| Err("the echo's thread ended".to_owned()))?;
        times
    })?;
    let mut sorted = times;
    sorted.sort_unstable();
    let at = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).map_or(0.0, |time| *time as f64 / 1e3);
    let rate = sorted.len() as f64 / window.as_secs_f64() / 1e3;
    let figure = |name: &str, unit: &str, better, value| Figure::new(name, unit, better, vec![value]);
    Ok(vec![
        figure("round trip", "us", Better::Less, at(0.5)),
        figure("round trip of 99 %", "us", Better::Less, at(0.99)),
        figure("rate", "thousand/s", Better::More, rate),
    ])
}

fn open(poll: bool) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(poll)?;
    if !poll {
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    Ok(socket)
}

/// The next datagram's length; `None` if none came before it was time to end.
fn receive(socket: &UdpSocket, bytes: &mut [u8], done: &AtomicBool) -> std::io::Result<Option<usize>> {
    loop {
        match socket.recv(bytes) {
            Ok(length) => return Ok(Some(length)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        if done.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::hint::spin_loop();
    }
}

/// Nanoseconds of each way there and back.
#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn go_round(socket: &UdpSocket, size: usize, window: Duration, done: &AtomicBool) -> Result<Vec<u64>, String> {
    let failed = |error: std::io::Error| format!("the sockets fail: {error}");
    let (out, mut back) = (vec![0; size], vec![0; size]);
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < window {
        let sent = Instant::now();
        socket.send(&out).map_err(failed)?;
        if receive(socket, &mut back, done).map_err(failed)? != Some(size) {
            return Err("a datagram did not come back".to_owned());
        }
        times.push(sent.elapsed().as_nanos() as u64);
    }
    Ok(times)
}
