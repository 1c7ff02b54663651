//! Both ways of frames through a pipeline: the fast path, and what the definition says.

use weir_flow_tables::{
    CodeState, Copies, ForController, Forwarded, Frame, Frames, Outcome, Packet, Report, Switch, Verdict, Worker,
};
use weir_openflow::port::number;

use super::{Became, counted};

/// A frame in a buffer that goes on in front of it and behind its end, with what was there before.
#[derive(Clone, Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

/// How much is in front of a frame, and behind it.
const FRONT: usize = 4096;
const BEHIND: usize = 160;

impl Buffer {
    pub fn of(bytes: &[u8]) -> Buffer {
        // What looks like more of the same, and like addresses that flows ask for.
        let length = FRONT + bytes.len() + BEHIND;
        let mut buffer = Buffer {
            memory: (0..length).map(|at| [8, 0, 0x45, 10, 0, 0, 2, 17][at % 8]).collect(),
            start: FRONT,
            end: FRONT + bytes.len(),
        };
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    /// What is behind it.
    pub fn behind(&self) -> &[u8] {
        &self.memory[self.end..]
    }
}

impl Frame for Buffer {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    fn window(&mut self) -> Option<&mut [u8; 128]> {
        self.memory[self.start..].first_chunk_mut()
    }

    fn has_room(&self, back: usize, _: usize) -> bool {
        back <= self.start
    }

    fn prepend(&mut self, bytes: usize) {
        self.start -= bytes;
    }

    fn trim_front(&mut self, bytes: usize) {
        self.start += bytes;
    }

    fn lengthen(&mut self, length: usize) {
        let before = self.end;
        self.end = self.start + length;
        self.memory[before..self.end].fill(0);
    }

    fn replace(&mut self, bytes: &[u8]) {
        *self = Buffer::of(bytes);
    }
}

/// What leaves behind a frame, and what controllers are told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Copied {
    sent: Vec<(u32, Vec<u8>)>,
    told: Vec<ForController>,
}

impl Copies for Copied {
    fn send(&mut self, port: u32, bytes: &[u8]) {
        self.sent.push((port, bytes.to_vec()));
    }

    fn tell(&mut self, report: Report, bytes: &[u8]) {
        self.told.push(report.with(bytes));
    }
}

impl Copied {
    /// What became of a packet whose frame is this now.
    pub fn became(self, forwarded: Forwarded, frame: &[u8]) -> Became {
        let first = match forwarded {
            // The frame goes before its copies.
            Forwarded::Sent(port) => Some((port, frame.to_vec())),
            Forwarded::Told => {
                assert!(self.sent.is_empty() && !self.told.is_empty(), "{self:?}");
                None
            }
            Forwarded::Dropped(why) => {
                assert_eq!(self, Copied::default(), "there is nothing that they are copies of");
                return Err(why);
            }
        };
        Ok(first.into_iter().chain(self.sent).chain(self.told.iter().map(told)).collect())
    }
}

/// What controllers are told, in writing.
fn told(told: &ForController) -> (u32, Vec<u8>) {
    let ForController { reason, table, cookie, max_len, packet } = told;
    let text = format!("{reason:?} {table} {cookie} {max_len} {:?} {:x?}", told.matches(), packet.bytes);
    (number::CONTROLLER, text.into_bytes())
}

/// Frames of a batch, and what is known of them.
pub struct Known {
    frames: Frames,
    buffers: Vec<Buffer>,
}

/// Takes a frame of those that are known by the fast path where that goes; what became of it, and whether it did.
pub fn forward(switch: &mut Switch, (number, known): (usize, &mut Known), bytes: &[u8], now: u64) -> Option<Became> {
    let before = counted(switch, now);
    let (Known { frames, buffers }, mut copies) = (known, Copied::default());
    let frame = &mut buffers[number];
    let became = take(switch, number, frame, frames, &mut copies, now);
    let untouched = Buffer::of(bytes);
    if (frame.start, frame.end) == (untouched.start, untouched.end) {
        assert_eq!(frame.behind(), untouched.behind(), "something changed behind the frame");
    }
    if became.is_none() {
        assert_eq!(counted(switch, now), before, "it gave up, and counted something");
        assert_eq!((frame.bytes(), &copies), (bytes, &Copied::default()));
    }
    became.map(|became| copies.became(became, frame.bytes()))
}

/// Takes one frame the short way if that goes, or else the longer one, and counts.
pub fn take(
    switch: &mut Switch,
    number: usize,
    frame: &mut Buffer,
    frames: &mut Frames,
    copies: &mut Copied,
    now: u64,
) -> Option<Forwarded> {
    let before = frame.bytes().to_vec();
    let became = match switch.short_way(frames, now).take(number, frame) {
        Some(port) => Some(Forwarded::Sent(port)),
        None => {
            assert_eq!(frame.bytes(), before, "it gave up, and changed something");
            switch.forward(number, frame, frames, copies, now)
        }
    };
    switch.settle(frames, now);
    became
}

/// Each with the port that it comes in by.
pub type Packets = Vec<(u32, Vec<u8>)>;

/// Takes packets through by the fast path, batch by batch; what became of each, or nothing if that takes the interpreter.
pub fn take_all(switch: &Switch, worker: Worker, packets: &Packets, batch: usize) -> Vec<Option<Became>> {
    let (mut known, mut became) = (Frames::new(batch, worker), Vec::new());
    for batch in packets.chunks(batch) {
        let mut buffers: Vec<Buffer> = batch.iter().map(|(_, bytes)| Buffer::of(bytes)).collect();
        switch.begin(&mut known);
        let is_led = known.is_led();
        let mut hastened = vec![None; buffers.len()];
        if !is_led {
            let mut looking = switch.looking(&mut known);
            buffers.iter_mut().zip(batch).for_each(|(frame, (port, _))| looking.look(frame, *port));
            drop(looking);
            switch.approach(&mut known);
            let mut short = switch.short_way(&mut known, 0);
            let all = hastened.iter_mut().zip(&mut buffers).enumerate();
            all.for_each(|(number, (hastened, frame))| *hastened = short.take(number, frame));
        }
        for ((number, frame), ((port, _), hastened)) in buffers.iter_mut().enumerate().zip(batch.iter().zip(hastened)) {
            let mut copies = Copied::default();
            let led = if is_led { switch.lead(frame, *port, &mut known, 0) } else { hastened };
            let number = if is_led { 0 } else { number };
            let forwarded =
                led.map(Forwarded::Sent).or_else(|| switch.forward(number, frame, &mut known, &mut copies, 0));
            became.push(forwarded.map(|forwarded| copies.became(forwarded, frame.bytes())));
        }
        switch.settle(&mut known, 0);
    }
    became
}

/// The same by definition.
pub fn by_definition(switch: &mut Switch, port: u32, bytes: &[u8], now: u64) -> Became {
    let Verdict { outcomes, why } = switch.judge(Packet::new(port, bytes.to_vec()), now);
    let (mut sent, mut for_controllers) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Sent { port, bytes, .. } => sent.push((port, bytes)),
            Outcome::Controller(packet) => for_controllers.push(told(&packet)),
            other @ Outcome::Normal(_) => panic!("{other:?}"),
        }
    }
    sent.extend(for_controllers);
    if sent.is_empty() { Err(why) } else { Ok(sent) }
}

/// Looks into frames as a batch.
pub fn approach(switch: &Switch, packets: &[(u32, Vec<u8>)]) -> Known {
    let mut frames = Frames::new(packets.len(), Worker::default());
    let mut buffers: Vec<Buffer> = packets.iter().map(|(_, bytes)| Buffer::of(bytes)).collect();
    switch.begin(&mut frames);
    let mut looking = switch.looking(&mut frames);
    buffers.iter_mut().zip(packets).for_each(|(frame, (port, _))| looking.look(frame, *port));
    drop(looking);
    switch.approach(&mut frames);
    Known { frames, buffers }
}

/// Makes the code that a switch wants, if it wants some.
pub fn compile(switch: &mut Switch) {
    if let Some(recipe) = switch.recipe() {
        switch.install(recipe.compile());
        assert_eq!(switch.code_state(), CodeState::InUse);
    }
}
