//! Matches, as they stand on the wire: OXM fields, OpenFlow 1.3.5 sections 7.2.3.2 to 7.2.3.7.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::{BadAction, BadMatch};
use crate::field::{Field, Needs};

/// The class of the fields of the specification.
pub const BASIC_CLASS: u16 = 0x8000;
/// The bit of [`Field::VlanVid`] that says that there is a tag.
pub const VLAN_PRESENT: u128 = 0x1000;
/// The match type that is in use.
const TYPE_OXM: u16 = 1;

/// A field with the value that it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Oxm {
    /// The field.
    pub field: Field,
    /// Its value, in the lowest bits.
    pub value: u128,
    /// Which bits count, if it came with a mask; a mask of all ones is kept, for it is to be shown as it was sent.
    pub mask: Option<u128>,
}

impl Oxm {
    /// A field that has this value.
    pub const fn exact(field: Field, value: u128) -> Oxm {
        Oxm { field, value, mask: None }
    }

    /// A field that has this value in the bits of `mask`.
    pub const fn masked(field: Field, value: u128, mask: u128) -> Oxm {
        Oxm { field, value, mask: Some(mask) }
    }

    /// Which bits count.
    pub const fn bits(&self) -> u128 {
        match self.mask {
            Some(mask) => mask,
            None => self.field.ones(),
        }
    }

    /// The 32 bits that stand before a field's value, as table features list them.
    pub const fn header(field: Field, masked: bool) -> u32 {
        let length = field.bytes() << masked as usize;
        (BASIC_CLASS as u32) << 16 | (field.number() as u32) << 9 | (masked as u32) << 8 | length as u32
    }

    fn read(reader: &mut Reader<'_>) -> Result<Oxm, Error> {
        let class = reader.u16()?;
        let field = reader.u8()?;
        let length = usize::from(reader.u8()?);
        let mut body = reader.part(length, BadMatch::BadLen)?;
        let masked = field & 1 != 0;
        let field = Field::of_number(field >> 1).filter(|_| class == BASIC_CLASS).ok_or(BadMatch::BadField)?;
        if masked && !field.has_mask() {
            return Err(BadMatch::BadMask.into());
        }
        if length != field.bytes() << u32::from(masked) {
            return Err(BadMatch::BadLen.into());
        }
        let value = number(body.take(field.bytes())?);
        let mask = masked.then(|| number(body.rest()));
        if value & !field.ones() != 0 {
            return Err(BadMatch::BadValue.into());
        }
        if mask.is_some_and(|mask| mask & !field.ones() != 0) {
            return Err(BadMatch::BadMask.into());
        }
        if value & !mask.unwrap_or(u128::MAX) != 0 {
            return Err(BadMatch::BadWildcards.into());
        }
        Ok(Oxm { field, value, mask })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u32(Oxm::header(self.field, self.mask.is_some()));
        for number in [Some(self.value), self.mask].into_iter().flatten() {
            let bytes = number.to_be_bytes();
            writer.bytes(&bytes[bytes.len() - self.field.bytes()..]);
        }
    }

    /// The field in an action that sets it (section 7.2.5), whose `reader` holds it and its padding.
    pub(crate) fn read_in_action(reader: &mut Reader<'_>) -> Result<Oxm, Error> {
        let class = reader.u16()?;
        let number_and_mask = reader.u8()?;
        let length = usize::from(reader.u8()?);
        let field = Field::of_number(number_and_mask >> 1)
            .filter(|field| class == BASIC_CLASS && field.is_settable())
            .ok_or(BadAction::BadSetType)?;
        if number_and_mask & 1 != 0 {
            return Err(BadAction::BadSetType.into());
        }
        if length != field.bytes() {
            return Err(BadAction::BadSetLen.into());
        }
        let value = number(reader.take(length).map_err(|_| BadAction::BadSetLen)?);
        if value & !field.ones() != 0 {
            return Err(BadAction::BadSetArgument.into());
        }
        // What follows must be padding to eight bytes, no more.
        if reader.left() >= 8 {
            return Err(BadAction::BadSetLen.into());
        }
        Ok(Oxm::exact(field, value))
    }

    pub(crate) fn write_in_action(&self, writer: &mut Writer) {
        Oxm::exact(self.field, self.value).write(writer);
    }
}

/// Up to 16 bytes as a number.
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// What a flow asks of a packet: all of these fields, in the order in which they were sent. Empty, it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    fields: Vec<Oxm>,
}

impl Match {
    /// A match of these fields.
    ///
    /// # Errors
    ///
    /// [`BadMatch::DupField`] for a field that is there twice, [`BadMatch::BadPrereq`] for one whose prerequisite does not
    /// stand before it.
    pub fn new(fields: Vec<Oxm>) -> Result<Match, Error> {
        for (at, oxm) in fields.iter().enumerate() {
            let before = fields.get(..at).unwrap_or_default();
            if before.iter().any(|other| other.field == oxm.field) {
                return Err(BadMatch::DupField.into());
            }
            if !allows(before, oxm.field.needs()) {
                return Err(BadMatch::BadPrereq.into());
            }
        }
        Ok(Match { fields })
    }

    /// Its fields, in the order in which they were sent.
    pub fn fields(&self) -> &[Oxm] {
        &self.fields
    }

    /// What it says of a field.
    pub fn get(&self, field: Field) -> Option<&Oxm> {
        self.fields.iter().find(|oxm| oxm.field == field)
    }

    /// Whether it says what a field needs.
    pub fn allows(&self, needs: Needs) -> bool {
        allows(&self.fields, needs)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Match, Error> {
        let mut header = *reader;
        let kind = header.u16()?;
        let length = usize::from(header.u16()?);
        if kind != TYPE_OXM {
            return Err(BadMatch::BadType.into());
        }
        if length < 4 || length.next_multiple_of(8) > reader.left() {
            return Err(BadMatch::BadLen.into());
        }
        let mut whole = reader.part(length.next_multiple_of(8), BadMatch::BadLen)?;
        let mut fields = whole.part(length, BadMatch::BadLen)?;
        fields.skip(4)?;
        // A field cannot be there twice: with more there is an error to find, and it is found early.
        let mut found: Vec<Oxm> = Vec::new();
        while !fields.is_empty() {
            let oxm = Oxm::read(&mut fields)?;
            if found.iter().any(|other| other.field == oxm.field) {
                return Err(BadMatch::DupField.into());
            }
            found.push(oxm);
        }
        Match::new(found)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let start = writer.here();
        writer.u16(TYPE_OXM);
        writer.u16(0);
        for oxm in &self.fields {
            oxm.write(writer);
        }
        writer.length(start, 2);
        writer.align(start);
    }
}

fn allows(before: &[Oxm], needs: Needs) -> bool {
    let said = |field| before.iter().find(|oxm| oxm.field == field);
    match needs {
        Needs::Nothing => true,
        Needs::Any(field) => said(field).is_some(),
        Needs::Tag => said(Field::VlanVid).is_some_and(|oxm| oxm.value & VLAN_PRESENT != 0),
        Needs::OneOf(field, values) => said(field).is_some_and(|oxm| values.contains(&oxm.value)),
    }
}
