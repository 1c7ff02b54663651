use super::*;
use crate::{catalogue, cli};

/// Names that are always the same.
#[derive(Default)]
struct Fixed {
    asked: Vec<(Which, Kind)>,
}

impl Names for Fixed {
    fn weirs(&mut self) -> Vec<String> {
        vec!["lab".to_owned(), "weir".to_owned()]
    }

    fn of(&mut self, which: &Which, kind: Kind) -> Vec<String> {
        self.asked.push((which.clone(), kind));
        match kind {
            Kind::Ports => vec!["lan".to_owned(), "wan".to_owned()],
            Kind::Stages => vec!["toy.ttl".to_owned()],
            Kind::Ways => vec!["toy.ttl.expired".to_owned()],
            Kind::Functions => vec!["toy".to_owned()],
            Kind::Workers => vec!["1".to_owned(), "control".to_owned()],
            Kind::Links => Vec::new(),
        }
    }
}

fn complete_by(line: &str, names: &mut Fixed) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let command = cli::command(catalogue::FUNCTIONS);
    candidates(command, catalogue::FUNCTIONS, &words, names).into_iter().map(|(word, _)| word).collect()
}

fn complete(line: &str) -> Vec<String> {
    complete_by(line, &mut Fixed::default())
}

#[test]
fn what_exists_is_offered_and_nothing_else() {
    let all = complete("");
    assert!(["run", "show", "route", "log"].iter().all(|word| all.contains(&(*word).to_owned())), "{all:?}");
    assert!(!all.contains(&"top".to_owned()) && !all.contains(&"complete".to_owned()), "{all:?}");
    assert_eq!(complete("rel"), ["reload"]);
    assert_eq!(complete("route d"), ["del"]);
    assert_eq!(complete("bench cp"), ["cpp"]);
    assert_eq!(complete("log d"), ["debug"]);
    assert_eq!(complete("show li"), ["links"]);
    assert!(complete("show ").contains(&"neighbors".to_owned()));
    assert_eq!(complete("reload --dr"), ["--dry-run"]);
    assert_eq!(complete("show stats --sort d"), ["drops"]);
    assert_eq!(complete("manual eng"), ["engine"]);
    assert_eq!(complete("completion "), ["bash", "zsh", "fish"]);
    assert_eq!(complete("route add 10.0.0.0/8 v"), ["via", "vrf"]);
    assert_eq!(complete("route add 10.0.0.0/8 vi"), ["via"]);
    assert!(complete("run ro").is_empty(), "files are the shell's to complete");
}

#[test]
fn names_are_those_of_the_weir_that_is_meant() {
    assert_eq!(complete("show ports --name "), ["lab", "weir"]);
    assert_eq!(complete("show ports --name=l"), ["--name=lab"]);
    let mut names = Fixed::default();
    assert_eq!(complete_by("show --name lab ports w", &mut names), ["wan"]);
    let lab = Which { name: Some("lab".to_owned()), socket: None };
    assert_eq!(names.asked, [(lab, Kind::Ports)]);
    let mut names = Fixed::default();
    assert_eq!(complete_by("capture --socket /tmp/s dr", &mut names), ["drops"]);
    assert_eq!(names.asked[0].0.socket.as_deref(), Some("/tmp/s"));
    assert_eq!(complete("capture la"), ["lan"]);
    assert_eq!(complete("capture toy.ttl.e"), ["toy.ttl.expired"]);
    assert_eq!(complete("show cycles c"), ["control"]);
    assert_eq!(complete("show routes --function t"), ["toy"]);
    assert_eq!(complete("route add --function "), ["toy"]);
    assert_eq!(complete("show --watch 1 stages toy.t"), ["toy.ttl"]);
    assert_eq!(complete("show --watch stages toy.t"), ["toy.ttl"]);
    assert_eq!(complete("show stages --watch 1 --fun"), ["--function"]);
}
