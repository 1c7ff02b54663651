//! Services as text.

use super::numbers::count;
use super::{Align, Style, Table, nanos};
use crate::services::ServiceStats;

/// Services, and what became of them, with so many spaces in front.
pub(crate) fn services(services: &[ServiceStats], indent: usize, style: Style) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("service", Align::Left),
        ("of", Align::Left),
        ("state", Align::Left),
        ("restarts", right),
        ("hanging", right),
        ("steps", right),
        ("longest step", right),
        ("holds", Align::Left),
        ("last failure", Align::Left),
    ]);
    for service in services {
        let failure = [&service.failed_at, &service.failure].map(|part| part.as_deref().unwrap_or_default());
        table.row([
            service.name.clone(),
            service.owner.clone(),
            service.state.word().to_owned(),
            count(service.restarts),
            count(service.abandoned),
            count(service.steps),
            nanos(i64::try_from(service.longest_step).unwrap_or(i64::MAX)),
            format!("{} of {} {}", count(service.occupancy), count(service.capacity), service.unit),
            if service.failure.is_some() { failure.join(" ") } else { "-".to_owned() },
        ]);
    }
    if table.is_empty() { "none\n".to_owned() } else { table.text(indent, style) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::example;

    #[test]
    fn what_failed_says_why_and_when() {
        let wanted = "\
service  of    state    restarts  hanging  steps  longest step  holds            last failure
socket   weir  running         0        0  1,234       25.0 us  1 of 32 clients  -
metrics  weir  waiting         2        1  1,234       25.0 us  1 of 32 clients  2026-11-21T21:46:03.120Z it had to
";
        assert_eq!(services(&example().services, 0, Style::PLAIN), wanted);
        assert_eq!(services(&[], 0, Style::PLAIN), "none\n");
    }
}
