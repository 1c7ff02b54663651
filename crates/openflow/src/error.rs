//! Error types and codes: OpenFlow 1.3.5 section 7.4.4.

use std::fmt;

/// Why a request was refused: the type and code of an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Error {
    /// The type: what kind of request failed.
    pub kind: u16,
    /// The code: why; its meaning depends on the type.
    pub code: u16,
}

macro_rules! errors {
    ($($(#[$about:meta])* $kind:ident = $number:literal { $($(#[$what:meta])* $code:ident = $value:literal,)* })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(u16)]
            pub enum $kind {
                $($(#[$what])* $code = $value,)*
            }

            impl From<$kind> for Error {
                fn from(code: $kind) -> Error {
                    Error { kind: $number, code: code as u16 }
                }
            }
        )*

        /// Every type and code of the specification, with the names of both.
        pub const ALL: &[(Error, &str, &str)] = &[
            $($((Error { kind: $number, code: $value }, stringify!($kind), stringify!($code)),)*)*
        ];
    };
}

errors! {
    /// The version could not be agreed on.
    HelloFailed = 0 {
        /// No version in common.
        Incompatible = 0,
        /// Not allowed.
        Eperm = 1,
    }
    /// A message was not understood.
    BadRequest = 1 {
        /// The version is not the one agreed on.
        BadVersion = 0,
        /// The message type is not known.
        BadType = 1,
        /// The multipart type is not known.
        BadMultipart = 2,
        /// The experimenter is not known.
        BadExperimenter = 3,
        /// The experimenter's type is not known.
        BadExpType = 4,
        /// Not allowed.
        Eperm = 5,
        /// The length is wrong.
        BadLen = 6,
        /// The buffer was used already.
        BufferEmpty = 7,
        /// There is no such buffer.
        BufferUnknown = 8,
        /// There is no such table, or it is not allowed here.
        BadTableId = 9,
        /// A slave may not ask for this.
        IsSlave = 10,
        /// There is no such port, or it is not allowed here.
        BadPort = 11,
        /// The packet is not valid.
        BadPacket = 12,
        /// The parts of a request are more than is kept.
        MultipartBufferOverflow = 13,
    }
    /// An action is wrong.
    BadAction = 2 {
        /// The type is not known or not supported.
        BadType = 0,
        /// The length is wrong.
        BadLen = 1,
        /// The experimenter is not known.
        BadExperimenter = 2,
        /// The experimenter's type is not known.
        BadExpType = 3,
        /// There is no such port to send to.
        BadOutPort = 4,
        /// An argument is wrong.
        BadArgument = 5,
        /// Not allowed.
        Eperm = 6,
        /// More actions than can be carried out.
        TooMany = 7,
        /// There is no such queue.
        BadQueue = 8,
        /// There is no such group.
        BadOutGroup = 9,
        /// The action cannot be applied to what the match lets through.
        MatchInconsistent = 10,
        /// The order of the actions is not supported.
        UnsupportedOrder = 11,
        /// The tag is not supported.
        BadTag = 12,
        /// The field cannot be set.
        BadSetType = 13,
        /// The length of the field to be set is wrong.
        BadSetLen = 14,
        /// The value of the field to be set is wrong.
        BadSetArgument = 15,
    }
    /// An instruction is wrong.
    BadInstruction = 3 {
        /// The type is not known.
        UnknownInst = 0,
        /// The type is known, but not supported here.
        UnsupInst = 1,
        /// There is no such table, or it is not behind this one.
        BadTableId = 2,
        /// Metadata bits that are not supported.
        UnsupMetadata = 3,
        /// A metadata mask that is not supported.
        UnsupMetadataMask = 4,
        /// The experimenter is not known.
        BadExperimenter = 5,
        /// The experimenter's type is not known.
        BadExpType = 6,
        /// The length is wrong.
        BadLen = 7,
        /// Not allowed.
        Eperm = 8,
    }
    /// A match is wrong.
    BadMatch = 4 {
        /// The match type is not supported.
        BadType = 0,
        /// The length is wrong.
        BadLen = 1,
        /// The tag is not supported.
        BadTag = 2,
        /// The mask of an Ethernet address is not supported.
        BadDlAddrMask = 3,
        /// The mask of an IP address is not supported.
        BadNwAddrMask = 4,
        /// These fields cannot be left out, or a value has bits that its mask leaves out.
        BadWildcards = 5,
        /// The field is not known.
        BadField = 6,
        /// The value is out of the field's range.
        BadValue = 7,
        /// The field has no mask, or not this one.
        BadMask = 8,
        /// What the field needs does not stand before it.
        BadPrereq = 9,
        /// The field is there twice.
        DupField = 10,
        /// Not allowed.
        Eperm = 11,
    }
    /// A flow could not be added or changed.
    FlowModFailed = 5 {
        /// For a reason without a code.
        Unknown = 0,
        /// The table is full.
        TableFull = 1,
        /// There is no such table.
        BadTableId = 2,
        /// It overlaps a flow of the same priority.
        Overlap = 3,
        /// Not allowed.
        Eperm = 4,
        /// The timeouts are not supported.
        BadTimeout = 5,
        /// The command is not known.
        BadCommand = 6,
        /// The flags are not known.
        BadFlags = 7,
    }
    /// A group could not be changed.
    GroupModFailed = 6 {
        /// It exists already.
        GroupExists = 0,
        /// Its number or its buckets are not allowed.
        InvalidGroup = 1,
        /// Buckets with unequal weights are not supported.
        WeightUnsupported = 2,
        /// There are too many groups.
        OutOfGroups = 3,
        /// There are too many buckets.
        OutOfBuckets = 4,
        /// A group may not lead to a group.
        ChainingUnsupported = 5,
        /// What is to be watched cannot be.
        WatchUnsupported = 6,
        /// It would lead to itself.
        Loop = 7,
        /// There is no such group.
        UnknownGroup = 8,
        /// Another group leads to it.
        ChainedGroup = 9,
        /// The type is not known.
        BadType = 10,
        /// The command is not known.
        BadCommand = 11,
        /// A bucket is wrong.
        BadBucket = 12,
        /// What a bucket watches does not exist.
        BadWatch = 13,
        /// Not allowed.
        Eperm = 14,
    }
    /// A port could not be changed.
    PortModFailed = 7 {
        /// There is no such port.
        BadPort = 0,
        /// It has another Ethernet address.
        BadHwAddr = 1,
        /// The configuration is not supported.
        BadConfig = 2,
        /// What is to be advertised is not supported.
        BadAdvertise = 3,
        /// Not allowed.
        Eperm = 4,
    }
    /// A table could not be changed.
    TableModFailed = 8 {
        /// There is no such table.
        BadTable = 0,
        /// The configuration is not supported.
        BadConfig = 1,
        /// Not allowed.
        Eperm = 2,
    }
    /// A request about queues failed.
    QueueOpFailed = 9 {
        /// There is no such port.
        BadPort = 0,
        /// There is no such queue.
        BadQueue = 1,
        /// Not allowed.
        Eperm = 2,
    }
    /// The switch's configuration could not be changed.
    SwitchConfigFailed = 10 {
        /// The flags are not supported.
        BadFlags = 0,
        /// The length is not supported.
        BadLen = 1,
        /// Not allowed.
        Eperm = 2,
    }
    /// The role could not be changed.
    RoleRequestFailed = 11 {
        /// The generation is older than one seen before.
        Stale = 0,
        /// Roles cannot be changed.
        Unsup = 1,
        /// The role is not known.
        BadRole = 2,
    }
    /// A meter could not be changed.
    MeterModFailed = 12 {
        /// For a reason without a code.
        Unknown = 0,
        /// It exists already.
        MeterExists = 1,
        /// Its number is not allowed.
        InvalidMeter = 2,
        /// There is no such meter.
        UnknownMeter = 3,
        /// The command is not known.
        BadCommand = 4,
        /// The flags are not supported.
        BadFlags = 5,
        /// A rate is not supported.
        BadRate = 6,
        /// A burst is not supported.
        BadBurst = 7,
        /// A band is not supported.
        BadBand = 8,
        /// A value in a band is not supported.
        BadBandValue = 9,
        /// There are too many meters.
        OutOfMeters = 10,
        /// There are too many bands.
        OutOfBands = 11,
    }
    /// The features of tables could not be changed.
    TableFeaturesFailed = 13 {
        /// There is no such table.
        BadTable = 0,
        /// The metadata masks are not supported.
        BadMetadata = 1,
        /// A property is not known.
        BadType = 2,
        /// A length is wrong.
        BadLen = 3,
        /// An argument is not supported.
        BadArgument = 4,
        /// Not allowed.
        Eperm = 5,
    }
}

impl Error {
    /// The type of errors that experimenters define.
    pub const EXPERIMENTER: u16 = 0xffff;
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ALL.iter().find(|(error, _, _)| error == self) {
            Some((_, kind, code)) => write!(f, "{kind}/{code}"),
            None => write!(f, "type {}, code {}", self.kind, self.code),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_of_the_specification() {
        // Section 7.4.4 has 14 types with these many codes.
        let codes = [2, 14, 16, 9, 12, 8, 15, 5, 3, 3, 3, 3, 12, 6];
        for (kind, count) in codes.into_iter().enumerate() {
            let of_kind: Vec<u16> = ALL
                .iter()
                .filter(|(error, ..)| usize::from(error.kind) == kind)
                .map(|(error, ..)| error.code)
                .collect();
            assert_eq!(of_kind, (0..count).collect::<Vec<_>>(), "type {kind}");
        }
        assert_eq!(ALL.len(), codes.iter().map(|count| usize::from(*count)).sum());
        assert_eq!(Error::from(BadMatch::DupField).to_string(), "BadMatch/DupField");
        assert_eq!(Error { kind: 77, code: 3 }.to_string(), "type 77, code 3");
    }
}
