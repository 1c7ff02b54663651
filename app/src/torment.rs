//! Clients that are slow, silent, half-closed or talk nonsense, in random order, and a good one among them now and then.
//!
//! Each run prints its seed; `WEIR_SEED=N` runs that one again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Seeds of every run.
const SEEDS: std::ops::Range<u64> = 1..7;

/// What bad clients do in a run.
const STEPS: usize = 300;

/// Bad clients at once.
const MOST: usize = 48;

/// How long a bad client tries to write to whoever does not read.
const BRIEF: Duration = Duration::from_millis(20);

/// A bad client's connection.
pub(crate) enum Bad {
    /// To the control socket.
    Unix(UnixStream),
    /// To the metrics.
    Tcp(TcpStream),
}

impl From<UnixStream> for Bad {
    fn from(stream: UnixStream) -> Bad {
        stream.set_write_timeout(Some(BRIEF)).unwrap();
        stream.set_read_timeout(Some(BRIEF)).unwrap();
        Bad::Unix(stream)
    }
}

impl From<TcpStream> for Bad {
    fn from(stream: TcpStream) -> Bad {
        stream.set_write_timeout(Some(BRIEF)).unwrap();
        stream.set_read_timeout(Some(BRIEF)).unwrap();
        Bad::Tcp(stream)
    }
}

// What comes of it is the server's affair: it may have closed the connection long ago.
impl Bad {
    fn write(&mut self, bytes: &[u8]) {
        drop(match self {
            Bad::Unix(stream) => stream.write_all(bytes),
            Bad::Tcp(stream) => stream.write_all(bytes),
        });
    }

    fn read(&mut self) {
        let mut some = [0; 100];
        drop(match self {
            Bad::Unix(stream) => stream.read(&mut some),
            Bad::Tcp(stream) => stream.read(&mut some),
        });
    }

    fn shutdown(&self, how: Shutdown) {
        drop(match self {
            Bad::Unix(stream) => stream.shutdown(how),
            Bad::Tcp(stream) => stream.shutdown(how),
        });
    }
}

/// What is tormented.
pub(crate) struct Target<'a> {
    /// Lets a bad client in.
    pub(crate) connect: &'a dyn Fn() -> Bad,
    /// What a good client might say, and parts of it.
    pub(crate) pieces: &'a [&'static [u8]],
    /// What a good client asks, and finds answered.
    pub(crate) good: &'a dyn Fn(),
}

/// Numbers that look random (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % most
    }
}

/// Torments it; a good client is served in between, and at the end, while the bad ones are there still.
pub(crate) fn run(target: &Target<'_>) {
    let given = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in given.map_or(SEEDS, |seed| seed..seed + 1) {
        println!("seed {seed}");
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut bad: Vec<Bad> = Vec::new();
        for step in 1..=STEPS {
            misbehave(&mut bad, &mut dice, target);
            if step.is_multiple_of(50) {
                (target.good)();
            }
        }
        assert!(!bad.is_empty());
    }
}

fn misbehave(bad: &mut Vec<Bad>, dice: &mut Dice, target: &Target<'_>) {
    let act = dice.below(10);
    if bad.is_empty() || act < 3 {
        if bad.len() >= MOST {
            bad.swap_remove(dice.below(MOST));
        }
        return bad.push((target.connect)());
    }
    let at = dice.below(bad.len());
    let Some(client) = bad.get_mut(at) else { return };
    match act {
        3 | 4 => {
            let garbage: Vec<u8> = (0..dice.below(3_000)).map(|_| dice.below(256) as u8).collect();
            client.write(&garbage);
        }
        5 | 6 => {
            let piece = target.pieces[dice.below(target.pieces.len())];
            client.write(&piece[..dice.below(piece.len() + 1)]);
        }
        7 => client.write(target.pieces[dice.below(target.pieces.len())]),
        8 => client.shutdown([Shutdown::Read, Shutdown::Write, Shutdown::Both][dice.below(3)]),
        _ if dice.below(2) == 0 => client.read(),
        _ => drop(bad.swap_remove(at)),
    }
}
