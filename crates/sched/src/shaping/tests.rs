use weir_config::{Rate, Size};

use super::*;
use crate::config::{ProfileConfig, SubportClassConfig, SubportConfig, small};

fn profile() -> ProfileConfig {
    ProfileConfig {
        tb_rate: Rate::new(1_000_000),
        tb_size: Size::new(2_000),
        ceil: None,
        weight: 1,
        classes: vec![],
        weights: vec![],
    }
}

#[test]
fn who_is_dismissed_has_no_part_in_the_shares() {
    let shaping = Shaping::divided(&small("one", profile()), Owners::divided(2)).unwrap();
    shaping.assign(0, "one", None).unwrap();
    let shares = || format!("{:?}", shaping.book().shares);
    let before = shares();
    shaping.assign(3, "one", None).unwrap();
    assert_ne!(shares(), before);
    shaping.dismiss(3);
    shaping.dismiss(3);
    assert_eq!(shares(), before);
}

#[test]
fn a_subport_that_is_given_rates_is_like_one_that_is_configured_so() {
    let subport = |rate, weight| SubportConfig {
        tb_rate: Some(Rate::new(rate)),
        ceil: Some(Rate::new(3 * rate)),
        tb_size: Size::new(20 * rate / 1_000),
        weight,
        parent: None,
        classes: vec![SubportClassConfig { tc_rate: Some(Rate::new(rate / 2)), ..SubportClassConfig::OPEN }],
    };
    let config = |second| SchedulerConfig {
        subports: [("a".to_owned(), subport(1_000_000, 1)), ("b".to_owned(), second)].into(),
        ..small("one", profile())
    };
    for owners in [Owners::ONE, Owners::divided(2)] {
        let shaped = |second| {
            let shaping = Shaping::divided(&config(second), owners).unwrap();
            for (user, set) in [(0, "a"), (1, "b"), (2, "b"), (4, "b")] {
                shaping.assign(user, "one", Some(set)).unwrap();
            }
            shaping.book().divide();
            shaping
        };
        let parts = |shaping: &Shaping| -> Vec<_> {
            (0..owners.parts()).map(|n| shaping.book().part(n)).map(|part| (part.port, part.subports.clone())).collect()
        };
        let (one, other) = (shaped(subport(2_000_000, 2)), shaped(subport(7_000_000, 5)));
        assert_ne!(parts(&one), parts(&other));
        one.set_subport(1, Some(&subport(7_000_000, 5)));
        assert_eq!(parts(&one), parts(&other));
        // A reload leaves it so, and so do users who come and go.
        one.apply(one.prepare(&config(subport(9_000_000, 9))).unwrap());
        other.dismiss(2);
        one.dismiss(2);
        one.book().divide();
        other.book().divide();
        assert_eq!(parts(&one), parts(&other));
        one.set_subport(9, None);
        one.set_subport(1, None);
        other.apply(other.prepare(&config(subport(9_000_000, 9))).unwrap());
        assert_eq!(parts(&one), parts(&other));
    }
}
