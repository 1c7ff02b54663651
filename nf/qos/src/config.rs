//! The keys of `qos`.

use std::collections::BTreeMap;

use weir_config::{FilePath, OneOrMany, PacketRate, PortName, Rate, Size, choice, config};
use weir_sched::class::MAX_CLASSES;
use weir_sched::classify::ClassifyConfig;
use weir_sched::config::{LARGEST, LEAST, MOST, SMALLEST, SchedulerConfig};
use weir_sched::police::PolicerConfig;
use weir_sched::remark::{MAX_RULES, RemarkConfig};
use weir_stage::{UsageConfig, entry};

use crate::classes::ClassRate;
use crate::key::{AnyPrefix, Tags, UserKey};

choice! {
    /// What users are known by.
    pub enum UserBy {
        /// The tags of their frames: outer and inner VLAN.
        Tags = "tags",
        /// Their address, as the source of packets.
        Source = "source",
        /// Their address, as the destination of packets.
        Destination = "destination",
        /// Nothing: all packets are of one user, that of `others`.
        Nothing = "nothing",
    }
}

choice! {
    /// What becomes of packets in the other direction.
    pub enum Reverse {
        /// They go by untouched.
        Pass = "pass",
        /// They are shaped too, by a scheduler of their own with the same settings.
        Shape = "shape",
        /// They are shaped by the same scheduler: rates and guarantees of users, of subports and of the port are those of both directions together.
        Together = "together",
    }
}

config! {
    /// One user, or several of the same kind. An entry for a single user goes before one for several that stands before it.
    pub struct UserConfig {
        /// The tags of its frames: `"100.7"`. Ranges stand for a user each: `"100-107.1-4094"`.
        pub tags: Option<Tags> = optional, live;
        /// Its addresses and prefixes.
        pub prefix: OneOrMany<AnyPrefix> = empty, live;
        /// Every prefix of this length in `prefix` is a user of its own.
        pub each: Option<u8> = optional, live, range(1..=128);
        /// The name of its profile.
        pub profile: String = required, live;
        /// The name of its subport; the first when absent.
        pub subport: Option<String> = optional, live;
    }
}

entry! {
    /// One user, as a file and requests name it.
    pub(crate) struct UserEntry by (user: OneOrMany<UserKey>) {
        /// What it is known by: VLANs such as 100.7, or addresses and prefixes.
        pub(crate) user: OneOrMany<UserKey> = required, live;
        /// The name of its profile.
        pub(crate) profile: String = required, live;
        /// The name of its subport; the first when absent.
        pub(crate) subport: Option<String> = optional, live;
    }
}

entry! {
    /// One subport, as requests name it.
    pub(crate) struct SubportEntry by (subport: String) {
        /// Its name.
        pub(crate) subport: String = required, live;
        /// What its users are guaranteed together, beside what each of them is.
        pub(crate) tb_rate: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// What they may send together at most: `tb_rate` when absent, what the port may without that.
        pub(crate) ceil: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// The size of its token buckets, for `tb_rate` and for `ceil`.
        pub(crate) tb_size: Size = default(Size::new(65_536)), live, range(SMALLEST..=LARGEST);
        /// Its weight among the subports, and the users, that are below what it is below, and share what is left.
        pub(crate) weight: u8 = default(1), live, range(1..=100);
        /// The subport above it; the port alone when absent.
        pub(crate) parent: Option<String> = optional, live;
        /// What its users may send of a class together: `0=100Mbit/s`, with the time over which that holds `0=100Mbit/s,5ms`, or `0=none`; with what the class is guaranteed of what its own users send, `0=20Mbit/s..100Mbit/s`, or `0=20Mbit/s..none`. Classes of which nothing is said stay as they are.
        pub(crate) classes: Vec<ClassRate> = empty, live, length(0..=MAX_CLASSES);
    }
}

config! {
    /// Bounds of the tables that users are found in.
    pub struct QosLimits {
        /// Prefixes of users, of each IP version.
        pub prefixes: u32 = default(65_536), rebuild, range(2..=1_048_576);
        /// /24 networks in which there are longer prefixes; each takes 1 KiB.
        pub networks: u32 = default(16_384), rebuild, range(16..=1_048_576);
    }
}

config! {
    /// Shapes what goes from one port to another: so much for each user, in traffic classes.
    pub struct QosConfig {
        /// Where packets come in.
        pub from: PortName = required, rebuild;
        /// Where they leave, shaped.
        pub to: PortName = required, rebuild;
        /// What becomes of packets in the other direction.
        pub reverse: Reverse = default(Reverse::Pass), rebuild;
        /// What users are known by.
        pub user_by: UserBy = default(UserBy::Tags), rebuild;
        /// The users.
        pub users: Vec<UserConfig> = empty, live;
        /// More users, from a file with the columns `user` (VLANs such as `100.7`, or addresses and prefixes, parted by `;`), `profile`
        /// and, if there are any, `subport`.
        pub users_csv: Option<FilePath> = optional, live;
        /// The profile of everybody else, who share it as one user; without it their packets are dropped as `unknown-user`.
        pub others: Option<String> = optional, live;
        /// Which traffic class and queue a packet belongs to.
        pub classify: ClassifyConfig = empty, live;
        /// Policers of users before the scheduler, by the names of their profiles.
        pub police: BTreeMap<String, PolicerConfig> = empty, live;
        /// What packets are remarked with before they are scheduled: DSCP, priority and drop eligible indicator.
        pub remark: Vec<RemarkConfig> = empty, live, length(0..=MAX_RULES);
        /// Packets that go to the scheduler at most; what comes beyond is dropped before anybody looks whose it is.
        pub limit: Option<PacketRate> = optional, rebuild;
        /// Rates, profiles and buffers. Of `users`, one is for `others`; `assign` is for functions whose users have numbers.
        pub scheduler: SchedulerConfig = required, live;
        /// What was counted of each user, written to a file from time to time.
        pub usage: Option<UsageConfig> = optional, live;
        /// Bounds of the tables that users are found in.
        pub limits: QosLimits = empty, rebuild;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(QosConfig::schema().defects(), Vec::<String>::new());
        // What a request may say of a subport is what the configuration may; it writes classes in another way.
        let (entry, config) = (SubportEntry::schema(), weir_sched::config::SubportConfig::schema());
        let names = |schema: &weir_config::Schema| schema.keys.iter().map(|key| key.name).collect::<Vec<_>>();
        assert_eq!(names(&entry)[1..], names(&config));
        for (key, same) in entry.keys.iter().skip(1).zip(&config.keys).filter(|(key, _)| key.name != "classes") {
            assert_eq!(
                format!("{:?}", (key.name, &key.holds, &key.presence)),
                format!("{:?}", (same.name, &same.holds, &same.presence))
            );
        }
    }
}
