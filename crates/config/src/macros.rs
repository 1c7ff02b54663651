//! Declaring configuration types: the struct, its schema and its reading from one place.

/// Declares the configuration of a function, or a nested table of one: a struct whose doc comments are the manual.
///
/// Each key is `name: Type = presence, change, rules...;`:
///
/// - presence: `required`, `optional` (the type is an `Option`), `default(value)`, or `empty` (an absent list, map
///   or table is an empty one);
/// - change: `live`, `rebuild`, `restart_port` or `restart_process`, see [`Change`](crate::Change);
/// - rules, as needed: `range(least..=greatest)`, `length(fewest..=most)`, `pattern(NAME)`; of a file, `contents(Change::Live)` says what
///   its contents take when they change, where that is less than what another file takes.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::net::Ipv4Addr;
/// use weir_config::{Nanos, OneOrMany, PortName, config};
///
/// config! {
///     /// Routes packets.
///     pub struct RouterConfig {
///         /// The ports that belong to the router.
///         pub ports: Vec<PortName> = required, rebuild, length(1..=64);
///         /// The largest packet, in bytes.
///         pub mtu: u16 = default(1500), live, range(68..=9216);
///         /// How long a neighbour is believed without a sign of life.
///         pub ageing: Nanos = default(Nanos::new(30_000_000_000)), live;
///         /// Next hops by prefix.
///         pub routes: BTreeMap<ipnet::Ipv4Net, OneOrMany<Ipv4Addr>> = empty, live;
///     }
/// }
/// assert_eq!(RouterConfig::schema().defects(), Vec::<String>::new());
/// ```
#[macro_export]
macro_rules! config {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $key_doc:literal])*
                $key_vis:vis $key:ident : $type:ty = $presence:ident $(($default:expr))? , $change:ident
                    $(, $rule:ident($bound:expr))* ;
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $name {
            $(
                $(#[doc = $key_doc])*
                $key_vis $key: $type,
            )*
        }

        impl $name {
            /// The schema of this table.
            $vis fn schema() -> $crate::Schema {
                let keys = ::std::vec![$(
                    {
                        let described = <$type as $crate::Setting>::describe();
                        $(let described = $crate::__rule!($type, described, $rule($bound));)*
                        $crate::KeySchema::new(
                            ::core::stringify!($key),
                            described,
                            $crate::__presence!($type, $presence $(($default))?),
                            $crate::__change!($change),
                            ::core::concat!($($key_doc, "\n"),*),
                        )
                    }
                ),*];
                $crate::Schema::new(::core::concat!($($doc, "\n"),*), keys)
            }
        }

        impl $crate::Setting for $name {
            fn describe() -> $crate::Type {
                $crate::Type::Table(Self::schema())
            }

            fn read(value: &$crate::Value) -> ::core::option::Option<Self> {
                let empty = $crate::Table::default();
                let table = $crate::table_or_empty(value, &empty)?;
                ::core::option::Option::Some(Self {
                    $($key: $crate::read_key(table, ::core::stringify!($key))?,)*
                })
            }

            fn write(&self) -> $crate::Value {
                let mut table = $crate::Table::default();
                $($crate::write_key(&mut table, ::core::stringify!($key), &self.$key);)*
                $crate::Value::Table(table)
            }
        }
    };
}

/// A rule of a key; part of [`config!`](crate::config).
#[doc(hidden)]
#[macro_export]
macro_rules! __rule {
    ($type:ty, $described:ident, range($bound:expr)) => {
        <$type as $crate::Ranged>::within($described, $bound)
    };
    ($type:ty, $described:ident, length($bound:expr)) => {
        $crate::with_length::<$type>($described, $bound)
    };
    ($type:ty, $described:ident, pattern($bound:expr)) => {
        $crate::with_pattern($described, &$bound)
    };
    ($type:ty, $described:ident, contents($bound:expr)) => {
        $crate::with_contents($described, $bound)
    };
}

/// The presence of a key; part of [`config!`](crate::config).
#[doc(hidden)]
#[macro_export]
macro_rules! __presence {
    ($type:ty, required) => {
        $crate::Presence::Required
    };
    ($type:ty, optional) => {
        $crate::Presence::Optional
    };
    ($type:ty, empty) => {
        $crate::Presence::Default($crate::Value::List(::std::vec::Vec::new()))
    };
    ($type:ty, default($default:expr)) => {{
        let default: $type = $default;
        $crate::Presence::Default($crate::Setting::write(&default))
    }};
}

/// The change class of a key; part of [`config!`](crate::config).
#[doc(hidden)]
#[macro_export]
macro_rules! __change {
    (live) => {
        $crate::Change::Live
    };
    (rebuild) => {
        $crate::Change::Rebuild
    };
    (restart_port) => {
        $crate::Change::RestartPort
    };
    (restart_process) => {
        $crate::Change::RestartProcess
    };
}

/// Declares a choice of words as an enum whose doc comments are the manual.
///
/// ```
/// weir_config::choice! {
///     /// What a worker does while nothing comes.
///     pub enum Idle {
///         /// It polls without a pause.
///         Spin = "spin",
///         /// It sleeps until something comes.
///         Sleep = "sleep",
///     }
/// }
/// assert_eq!(Idle::Sleep.to_string(), "sleep");
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident {
            $(
                $(#[doc = $word_doc:literal])*
                $variant:ident = $word:literal
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $(
                $(#[doc = $word_doc])*
                $variant,
            )+
        }

        impl $name {
            /// The word for it.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::Setting for $name {
            fn describe() -> $crate::Type {
                const WORDS: &[$crate::Word] = &[
                    $($crate::Word { name: $word, doc: ::core::concat!($($word_doc),*) },)+
                ];
                $crate::Type::Choice(WORDS)
            }

            fn read(value: &$crate::Value) -> ::core::option::Option<Self> {
                match value.as_text()? {
                    $($word => ::core::option::Option::Some(Self::$variant),)+
                    _ => ::core::option::Option::None,
                }
            }

            fn write(&self) -> $crate::Value {
                $crate::Value::from(self.as_str())
            }
        }
    };
}

/// Declares a key that may have one of several types, as an enum; the first that fits is taken.
///
/// Tables among the types must differ in their keys, so that at most one fits.
///
/// ```
/// weir_config::either! {
///     /// Where a route leads.
///     pub enum Target {
///         /// To this neighbour.
///         Via(std::net::Ipv4Addr),
///         /// To one of these neighbours.
///         Many(Vec<std::net::Ipv4Addr>),
///     }
/// }
/// ```
#[macro_export]
macro_rules! either {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident {
            $(
                $(#[doc = $variant_doc:literal])*
                $variant:ident($type:ty)
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        $vis enum $name {
            $(
                $(#[doc = $variant_doc])*
                $variant($type),
            )+
        }

        impl $crate::Setting for $name {
            fn describe() -> $crate::Type {
                $crate::Type::Either(::std::vec![$(<$type as $crate::Setting>::describe()),+])
            }

            fn read(value: &$crate::Value) -> ::core::option::Option<Self> {
                $(
                    if let ::core::option::Option::Some(read) = <$type as $crate::Setting>::read(value) {
                        return ::core::option::Option::Some(Self::$variant(read));
                    }
                )+
                ::core::option::Option::None
            }

            fn write(&self) -> $crate::Value {
                match self {
                    $(Self::$variant(inner) => $crate::Setting::write(inner),)+
                }
            }
        }
    };
}
