//! `weir trace`.

use serde_json::{Value, json};

use super::{connect, print};
use crate::cli;
use crate::failure::Failed;
use crate::render::{Style, clean};
use weir_protocol::{Request, Response, Step, VERSION};

/// Follows packets and prints what became of them.
pub(crate) fn trace(options: &cli::Trace) -> Result<(), Failed> {
    let mut client = connect(&options.target)?;
    client.enough_on_signals().map_err(|error| format!("cannot listen to signals: {error}"))?;
    client.send(Request::Trace { count: options.count, filter: options.filter.join(" ") })?;
    let style = Style::of_stdout();
    let mut printer = Printer::default();
    loop {
        match client.next()? {
            Response::Traced(steps) => {
                for step in &steps {
                    print(&if options.json { json_line(step) } else { printer.text(step, style) })?;
                }
            }
            Response::Ok(end) if options.json => {
                return print(&format!("{}\n", json!({ "version": VERSION, "end": end })));
            }
            Response::Ok(end) => return say_end(&end),
            other => return Err(Failed::from(format!("Weir's answer is not understood: {other:?}"))),
        }
    }
}

fn json_line(step: &Step) -> String {
    format!("{}\n", json!({ "version": VERSION, "step": step }))
}

fn say_end(end: &Value) -> Result<(), Failed> {
    match end.get("missed").and_then(Value::as_u64) {
        None | Some(0) => Ok(()),
        Some(missed) => print(&format!("{missed} steps came too fast to be shown\n")),
    }
}

/// Prints steps; packets are told apart by their numbers, and shown in words when they have changed.
#[derive(Default)]
struct Printer {
    /// Numbers, times and words of the packets seen, the latest last.
    seen: Vec<(u32, u64, String)>,
}

impl Printer {
    fn text(&mut self, step: &Step, style: Style) -> String {
        let known = self.seen.iter_mut().find(|(packet, ..)| *packet == step.packet);
        let (begun, changed) = match known {
            Some((_, begun, words)) => (*begun, std::mem::replace(words, step.bytes.clone()) != step.bytes),
            None => {
                self.seen.push((step.packet, step.time, step.bytes.clone()));
                (step.time, true)
            }
        };
        let micros = step.time.saturating_sub(begun) as f64 / 1000.0;
        let head = format!("{} {micros:>10.3} us  ", style.bold(&format!("{:>4}", format!("#{}", step.packet))));
        let what = clean(&words(step));
        let what = match (step.event.as_str(), step.fate.as_str()) {
            ("dropped", _) | (_, "drop") => style.bad(&what),
            ("transmitted", _) | (_, "consume") => style.good(&what),
            _ => what,
        };
        let bytes = if changed { format!("\n{:19}{}", "", style.dim(&clean(&step.bytes))) } else { String::new() };
        format!("{head}{what}{bytes}\n")
    }
}

fn words(step: &Step) -> String {
    let Step { event, place, way, fate, why, .. } = step;
    match (event.as_str(), fate.as_str()) {
        ("received", _) => format!("received on {place}"),
        ("crossed", _) => format!("crossed {place}"),
        ("transmitted", _) => format!("transmitted on {place}"),
        ("taken", _) => format!("{place} holds it"),
        ("created", _) => format!("created by {place}: {way}"),
        ("dropped", _) => format!("dropped at {place}: {way}"),
        (_, "drop") => format!("{place} drops it: {way}"),
        (_, "consume") => format!("{place} consumes it: {way}"),
        (_, "again") => format!("{place} -> {way}, in the next loop"),
        _ if why.is_empty() => format!("{place} -> {way}"),
        _ => format!("{place} -> {way}, by {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(packet: u32, time: u64, event: &str, way: &str, fate: &str, bytes: &str) -> Step {
        let place = if fate.is_empty() { "wan" } else { "toy.ttl" };
        Step {
            packet,
            time,
            event: event.into(),
            place: place.into(),
            way: way.into(),
            fate: fate.into(),
            why: if way == "out" { "route 10.0.0.0/8 via 192.0.2.9 on wan".into() } else { String::new() },
            bytes: bytes.into(),
        }
    }

    #[test]
    fn a_packet_reads_as_a_story() {
        let mut printer = Printer::default();
        let steps = [
            step(1, 5000, "received", "", "", "ttl 64"),
            step(1, 6500, "left", "out", "way", "ttl 63"),
            step(2, 7000, "received", "", "", "ttl 1"),
            step(1, 7001, "transmitted", "", "", "ttl 63"),
            step(2, 8000, "left", "expired", "drop", "ttl 1"),
        ];
        let text: String = steps.iter().map(|step| printer.text(step, Style::PLAIN)).collect();
        let wanted = "  \
  #1      0.000 us  received on wan
                   ttl 64
  #1      1.500 us  toy.ttl -> out, by route 10.0.0.0/8 via 192.0.2.9 on wan
                   ttl 63
  #2      0.000 us  received on wan
                   ttl 1
  #1      2.001 us  transmitted on wan
  #2      1.000 us  toy.ttl drops it: expired
";
        assert_eq!(text, wanted);
    }
}
