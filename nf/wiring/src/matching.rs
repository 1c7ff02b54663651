//! The kind of stage `match`: tells packets apart by a filter expression.

use weir_config::{ConfigError, ErrorKind, Schema, config};
use weir_filter::Filter;
use weir_packet::Batch;
use weir_stage::{Declaration, DescribeStage, Env, Ground, MakeStage, Out, Settings, Stage, StageKind};

weir_stage::ways! {
    /// Ways out of [`Matching`].
    pub(crate) enum Exit {
        /// It matches the filter.
        Out => way "out",
        /// It does not.
        Other => way "other",
    }
}

/// Sends packets that do not match a filter another way.
#[derive(Debug)]
struct Matching {
    filter: Filter,
}

impl Stage for Matching {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |_, packet, _| match self.filter.matches(packet.bytes()) {
            true => Exit::Out,
            false => Exit::Other,
        });
    }
}

config! {
    /// Tells packets apart: those that match a filter leave by `out`, the others by `other`.
    pub struct MatchConfig {
        /// The filter, in the language of pcap-filter(7): `"udp port 53"`.
        pub filter: String = required, rebuild, length(1..=4096);
        /// Machine code may be made of the filter. What matches is the same without, and takes longer to tell.
        pub compile: bool = default(true), rebuild;
    }
}

/// The kind of stage `match`.
#[derive(Debug)]
pub struct Match;

impl StageKind for Match {
    fn kind(&self) -> &'static str {
        "match"
    }

    fn schema(&self) -> Schema {
        MatchConfig::schema()
    }

    fn describe(&self, settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let config: MatchConfig = settings.read()?;
        let wrong =
            |error| vec![settings.error(ErrorKind::Malformed, "filter", format!("{:?}: {error}", config.filter))];
        let filter = Filter::parse(&config.filter).map_err(wrong)?;
        Ok(Box::new(Described { filter, compile: config.compile }))
    }
}

/// A filter that was read, and whether machine code is made of it once it is to be used.
#[derive(Debug)]
struct Described {
    filter: Filter,
    compile: bool,
}

impl Described {
    fn ready(self) -> Filter {
        if self.compile {
            self.filter.compile();
        }
        self.filter
    }
}

impl DescribeStage for Described {
    fn declares(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn instantiate(
        self: Box<Self>,
        _settings: &Settings<'_>,
        _ground: &Ground<'_>,
        _old: Option<&dyn MakeStage>,
    ) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        let filter = self.ready();
        Ok(Box::new(move || Box::new(Matching { filter: filter.clone() }) as Box<dyn Stage>))
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    /// With machine code and without: by the same packets, which leave by the same ways.
    #[test]
    fn packets_are_told_apart() {
        for compile in [true, false] {
            let filter = Filter::parse("ether[0] & 1 = 1").unwrap();
            let filter = Described { filter, compile }.ready();
            assert_eq!(filter.is_compiled(), compile);
            let mut harness = Harness::new(Matching { filter });
            let packets: Vec<[u8; 60]> = (0..8).map(|n| [n; 60]).collect();
            let outcome = harness.run(0, &packets);
            assert!(outcome.way("out").iter().all(|packet| packet[0] % 2 == 1));
            assert!(outcome.way("other").iter().all(|packet| packet[0] % 2 == 0));
            assert_eq!((outcome.way("out").len(), outcome.way("other").len()), (4, 4));
        }
    }
}
