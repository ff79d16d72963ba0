//! The table of culprits.

use super::*;

fn culprit(number: usize) -> Culprit {
    Culprit { namespace: "shop".into(), pod: format!("pod-{number}"), container: String::new() }
}

fn total(sample: &BlameSample) -> u64 {
    sample.other_ns + sample.culprits.iter().map(|(_, ns)| ns).sum::<u64>()
}

#[test]
fn few_culprits_are_all_named() {
    let mut blame = Blame::default();
    for number in 0..NAMED {
        blame.add(&culprit(number), 5, 0);
        blame.add(&culprit(number), 2, 0);
    }
    let sample = blame.sample();
    assert_eq!(sample.culprits.len(), NAMED);
    assert!(sample.culprits.iter().all(|(_, ns)| *ns == 7));
    assert_eq!(sample.other_ns, 0);
}

#[test]
fn many_culprits_lose_nothing_and_take_no_more_room() {
    let mut blame = Blame::default();
    for round in 0..3 {
        for number in 0..1000 {
            blame.add(&culprit(number), 1 + round, 0);
        }
        blame.choose(15.0, 9);
    }
    assert!(blame.culprits.len() <= WATCHED);
    let sample = blame.sample();
    assert_eq!(sample.culprits.len(), NAMED);
    assert_eq!(total(&sample), 1000 * (1 + 2 + 3));
}

#[test]
fn a_culprit_that_comes_late_and_is_worse_gets_its_name() {
    let mut blame = Blame::default();
    for number in 0..NAMED {
        blame.add(&culprit(number), 1000, 0);
    }
    let late = culprit(99);
    blame.add(&late, 1_000_000, 0);
    let other_before = blame.sample().other_ns;
    blame.choose(15.0, 9);
    blame.add(&late, 300, 0);
    let sample = blame.sample();
    let found = sample.culprits.iter().find(|(culprit, _)| *culprit == late).expect("it is named");
    assert_eq!(found.1, 300, "what was told as other stays there");
    assert_eq!(sample.other_ns, other_before);
    let at = sample.culprits.iter().position(|(culprit, _)| *culprit == late).expect("as above");
    assert_eq!(sample.created_ms[at], 9, "it is counted since it has its name");
}

#[test]
fn names_do_not_come_and_go() {
    let mut blame = Blame::default();
    for number in 0..=NAMED {
        blame.add(&culprit(number), 1000, 0);
    }
    let named = blame.sample().culprits;
    for _ in 0..20 {
        blame.choose(15.0, 9);
        for number in 0..=NAMED {
            blame.add(&culprit(number), 1000 + 10 * number as u64, 0);
        }
    }
    let names = |culprits: &[(Culprit, u64)]| culprits.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&blame.sample().culprits), names(&named));
}

#[test]
fn when_named_ones_have_gone_others_get_their_names() {
    let mut blame = Blame::default();
    for number in 0..=NAMED {
        blame.add(&culprit(number), 1000, 0);
    }
    let staying = culprit(NAMED);
    blame.retain(|culprit| *culprit == staying);
    blame.choose(15.0, 9);
    blame.add(&staying, 7, 0);
    let sample = blame.sample();
    assert_eq!(sample.culprits, [(staying, 7)]);
    assert_eq!(sample.other_ns, 1000, "what was told as other stays there");
}
