//! What packets may have in common: the fields that streams are told apart by.

use crate::model::Model;
use crate::packet::Packet;

/// The fields that make a stream, in the order they were named; none for a single stream of all packets.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    fields: Vec<Field>,
}

/// Something that a packet says of itself, or that is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The number of its file among those of its side, from 1.
    File,
    /// The stream in the generator's signature.
    Signature,
    /// The subscriber that the model takes it for.
    Subscriber,
}

/// All fields, by their names.
const NAMES: &[(&str, Field)] =
    &[("file", Field::File), ("signature", Field::Signature), ("subscriber", Field::Subscriber)];

impl Fields {
    /// Reads names that are parted by commas.
    ///
    /// # Errors
    ///
    /// What is wrong with each name, a sentence each.
    pub fn parse(text: &str) -> Result<Fields, Vec<String>> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let (mut fields, mut wrong) = (Vec::new(), Vec::new());
        for name in names {
            match NAMES.iter().find(|(known, _)| *known == name) {
                Some((_, field)) => fields.push(*field),
                None => wrong.push(format!("\"{name}\" is no field; there are {}", names_of_all())),
            }
        }
        if wrong.is_empty() { Ok(Fields { fields }) } else { Err(wrong) }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name().to_owned()).collect()
    }

    /// Writes what a packet has in them, each with its length before it. What it does not have is empty.
    #[inline]
    pub(crate) fn write(&self, packet: &Packet<'_>, model: &dyn Model, to: &mut Vec<u8>) {
        for field in &self.fields {
            let at = to.len();
            to.push(0);
            field.write(packet, model, to);
            let length = to.len() - at - 1;
            if let Some(byte) = to.get_mut(at) {
                *byte = u8::try_from(length).unwrap_or(u8::MAX);
            }
        }
    }

    /// What was written, for people: the name of each field and its value.
    pub(crate) fn show(&self, mut written: &[u8]) -> Vec<(String, String)> {
        let mut shown = Vec::new();
        for field in &self.fields {
            let Some((&length, rest)) = written.split_first() else { break };
            let (value, rest) = rest.split_at_checked(length.into()).unwrap_or((rest, &[]));
            written = rest;
            shown.push((field.name().to_owned(), field.show(value)));
        }
        shown
    }
}

fn names_of_all() -> String {
    NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl Field {
    fn name(self) -> &'static str {
        NAMES.iter().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }

    fn write(self, packet: &Packet<'_>, model: &dyn Model, to: &mut Vec<u8>) {
        match self {
            Field::File => to.extend_from_slice(&(packet.file as u32 + 1).to_be_bytes()),
            Field::Signature => {
                if let Some(signature) = weir_measure::signature::read(packet.data) {
                    to.extend_from_slice(&signature.stream.to_be_bytes());
                }
            }
            Field::Subscriber => model.subscriber(packet, to),
        }
    }

    fn show(self, value: &[u8]) -> String {
        match self {
            _ if value.is_empty() => "-".to_owned(),
            Field::File | Field::Signature => number(value).to_string(),
            Field::Subscriber => String::from_utf8_lossy(value).into_owned(),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
