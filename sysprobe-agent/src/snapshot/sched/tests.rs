//! Differences and sums of interference.

use super::*;

fn culprit(container: &str) -> Culprit {
    Culprit { container: container.to_owned(), ..Culprit::default() }
}

fn waited(sum_ns: u64, system_ns: u64, culprits: &[(&str, u64)]) -> SchedSample {
    SchedSample {
        wait: HistogramSample::new([0; _], sum_ns),
        causes: Some(CausesSample { system_ns, ..CausesSample::default() }),
        blame: BlameSample {
            culprits: culprits.iter().map(|(name, ns)| (culprit(name), *ns)).collect(),
            ..BlameSample::default()
        },
        ..SchedSample::default()
    }
}

#[test]
fn a_culprit_begins_at_zero_whenever_it_is_named() {
    let earlier = waited(100, 100, &[("/a", 60), ("/b", 40)]);
    let later = waited(150, 150, &[("/a", 80), ("/b", 10), ("/c", 5)]);
    let since = later.since(&earlier).expect("the totals grew");
    assert_eq!((since.wait.sum_ns, since.causes.map(|causes| causes.system_ns)), (50, Some(50)));
    let named: Vec<_> = since.blame.culprits.iter().map(|(who, ns)| (who.container.as_str(), *ns)).collect();
    assert_eq!(named, [("/a", 20), ("/b", 10), ("/c", 5)]);
}

#[test]
fn what_restarted_or_was_unknown_is_new_as_a_whole() {
    let (earlier, later) = (waited(100, 100, &[("/a", 100)]), waited(30, 30, &[("/a", 30)]));
    assert_eq!(SchedSample::in_window(Some(&earlier), &later), later);
    assert_eq!(SchedSample::in_window(None, &later), later);
}

#[test]
fn sums_name_each_culprit_once() {
    let mut sum = waited(100, 100, &[("/b", 100)]);
    sum.add(&SchedSample { causes: None, ..SchedSample::default() });
    sum.add(&waited(20, 20, &[("/a", 5), ("/b", 15)]));
    assert_eq!(sum, waited(120, 120, &[("/a", 5), ("/b", 115)]));
}
