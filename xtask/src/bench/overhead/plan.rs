//! The variants to measure, and the order of the parts. No side effects.

use anyhow::{Result, bail};

/// A configuration of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) title: String,
    /// The domains that are turned off; empty for the default configuration.
    pub(super) off: Vec<String>,
}

/// A period for which a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing runs beside the load.
    Without,
    /// The variant with this number runs beside the load.
    With(usize),
}

/// The parts of one load: each `With` has a `Without` before and after it. Every round contains each variant,
/// so that a slow drift of the machine affects all variants alike.
pub(super) fn parts(variants: usize, pairs: u32) -> Vec<Part> {
    let turns = (0..pairs).flat_map(|_| 0..variants);
    turns.flat_map(|variant| [Part::Without, Part::With(variant)]).chain([Part::Without]).collect()
}

/// The approximate duration: of pairs for so many variants of loads, and of further parts for each pair.
/// Starting, settling and stopping an agent or a tool takes some three seconds.
pub(super) fn minutes((variants, more): (usize, usize), pairs: u32, lead: u32, seconds: u32) -> u64 {
    let part = u64::from(3 + lead + seconds);
    let each = variants as u64 * (u64::from(seconds) + part) + more as u64 * part;
    (each * u64::from(pairs)).div_ceil(60)
}

/// The configurations that the words of the command line name; `domains` are those that work here.
pub(super) fn choices(words: &[String], domains: &[String]) -> Result<Vec<Choice>> {
    let mut found: Vec<Choice> = Vec::new();
    for word in words {
        for choice in expand(word, domains)? {
            if !found.contains(&choice) {
                found.push(choice);
            }
        }
    }
    Ok(found)
}

fn expand(word: &str, domains: &[String]) -> Result<Vec<Choice>> {
    match word {
        "default" => Ok(vec![Choice { title: "default".to_owned(), off: Vec::new() }]),
        "each" => domains.iter().map(|domain| only(&[domain], domains)).collect(),
        "all-but-each" => domains.iter().map(|domain| all_but(&[domain], domains)).collect(),
        _ => match word.strip_prefix("default-") {
            Some(off) => Ok(vec![all_but(&off.split('-').collect::<Vec<_>>(), domains)?]),
            None => Ok(vec![only(&word.split('+').collect::<Vec<_>>(), domains)?]),
        },
    }
}

fn only(on: &[&str], domains: &[String]) -> Result<Choice> {
    known(on, domains)?;
    let off = domains.iter().filter(|domain| !on.contains(&domain.as_str())).cloned().collect();
    Ok(Choice { title: format!("`{}` only", on.join("`, `")), off })
}

fn all_but(off: &[&str], domains: &[String]) -> Result<Choice> {
    known(off, domains)?;
    let title = format!("all but `{}`", off.join("`, `"));
    Ok(Choice { title, off: off.iter().map(|domain| (*domain).to_owned()).collect() })
}

fn known(words: &[&str], domains: &[String]) -> Result<()> {
    if let Some(word) = words.iter().find(|word| !domains.iter().any(|domain| domain == **word)) {
        let all = domains.join(", ");
        bail!("{word} is no domain that works here ({all}), and none of default, each and all-but-each");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn each_part_with_a_variant_has_neighbours_without() {
        use Part::{With, Without};
        let wanted = [Without, With(0), Without, With(1), Without, With(0), Without, With(1), Without];
        assert_eq!(parts(2, 2), wanted);
        assert_eq!(parts(1, 1), [Without, With(0), Without]);
    }

    #[test]
    fn every_variant_has_as_many_parts_as_there_are_pairs() {
        let parts = parts(5, 8);
        for variant in 0..5 {
            assert_eq!(parts.iter().filter(|part| **part == Part::With(variant)).count(), 8);
        }
        for three in parts.windows(3).filter(|three| three[1] != Part::Without) {
            assert_eq!((three[0], three[2]), (Part::Without, Part::Without));
        }
    }

    #[test]
    fn the_time_is_told_in_whole_minutes() {
        assert_eq!(minutes((1, 0), 1, 1, 1), 1);
        assert_eq!(minutes((8 * 2, 0), 8, 5, 3), 30);
        assert_eq!(minutes((8 * 2, 8), 8, 5, 3), 42);
    }

    #[test]
    fn words_choose_domains() {
        let domains = words(&["sched", "vfs", "tcp"]);
        let chosen = choices(&words(&["default", "each", "default-vfs", "sched+tcp"]), &domains).unwrap();
        let titles: Vec<_> = chosen.iter().map(|choice| &*choice.title).collect();
        assert_eq!(
            titles,
            ["default", "`sched` only", "`vfs` only", "`tcp` only", "all but `vfs`", "`sched`, `tcp` only"]
        );
        assert_eq!(chosen[0].off, words(&[]));
        assert_eq!(chosen[1].off, words(&["vfs", "tcp"]));
        assert_eq!(chosen[4].off, words(&["vfs"]));
        assert_eq!(chosen[5].off, words(&["vfs"]));
        assert_eq!(choices(&words(&["all-but-each"]), &domains).unwrap()[2].off, words(&["tcp"]));
    }

    #[test]
    fn a_choice_is_measured_once_and_an_unknown_domain_is_refused() {
        let domains = words(&["sched", "vfs"]);
        assert_eq!(choices(&words(&["each", "sched"]), &domains).unwrap().len(), 2);
        let error = choices(&words(&["sched+disk"]), &domains).unwrap_err().to_string();
        assert!(error.contains("disk is no domain"), "{error}");
    }
}
