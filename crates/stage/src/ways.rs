//! The named ways out of a stage.

/// What happens to a packet that leaves a stage by a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Goes on to what is wired there.
    Way,
    /// Dropped for the reason that the way names.
    Drop,
    /// Used up: answered, learned, reassembled, delivered.
    Consume,
    /// No way out, but why a packet came into being.
    Create,
    /// Goes round: enters the stage wired there in the next loop, at most [`MAX_PASSES`] times.
    Again,
}

/// How often a packet may take `again` ways before it is dropped as `loop-limit`.
pub const MAX_PASSES: u8 = 4;

/// One way out of a stage: what statistics, metrics, traces, `check` and the manual say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayInfo {
    /// Its name, unique in the stage: `expired`.
    pub name: &'static str,
    /// What becomes of the packets.
    pub fate: Fate,
    /// A sentence that explains it.
    pub help: &'static str,
}

/// The ways out of a stage, as an enum. Made by [`ways!`](crate::ways).
pub trait Ways: Copy {
    /// All of them; packets of which nothing is said take the first.
    const LIST: &'static [WayInfo];

    /// Position in [`Ways::LIST`].
    fn code(self) -> u8;
}

/// Declares the ways out of a stage.
///
/// The first must be a way; packets that take it stay where they are in their batch. Doc comments become the help text.
///
/// ```
/// weir_stage::ways! {
///     /// Ways out of the stage that takes a hop off the TTL.
///     pub enum Ttl {
///         /// Forwarded with one hop less to live.
///         Forward => way "out",
///         /// Arrived with a TTL of 0 or 1.
///         Expired => drop "ttl-expired",
///     }
/// }
/// use weir_stage::Ways;
/// assert_eq!(Ttl::Expired.code(), 1);
/// assert_eq!(Ttl::LIST[1].help, " Arrived with a TTL of 0 or 1.");
/// ```
#[macro_export]
macro_rules! ways {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $help:expr])+ $way:ident => $fate:ident $text:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $name {
            $( $(#[doc = $help])+ $way ),+
        }
        impl $crate::Ways for $name {
            const LIST: &'static [$crate::WayInfo] = &[
                $( $crate::WayInfo { name: $text, fate: $crate::ways!(@fate $fate), help: concat!($($help),+) } ),+
            ];
            #[inline(always)]
            fn code(self) -> u8 {
                self as u8
            }
        }
    };
    (@fate way) => { $crate::Fate::Way };
    (@fate drop) => { $crate::Fate::Drop };
    (@fate consume) => { $crate::Fate::Consume };
    (@fate create) => { $crate::Fate::Create };
    (@fate again) => { $crate::Fate::Again };
}
