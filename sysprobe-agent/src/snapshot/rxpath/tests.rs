//! Differences and sums of receive latencies.

use super::*;

fn path(stages: &[(&str, &[u64])]) -> PathSample {
    let mut path = PathSample::default();
    for (name, values) in stages {
        path.stage_mut(name).latency = HistogramSample::of(values);
        path.total.sum_ns += values.iter().sum::<u64>();
    }
    path
}

fn tcp(path: PathSample) -> RxpathSample {
    RxpathSample { protocols: BTreeMap::from([("tcp".to_owned(), path)]) }
}

fn sums(sample: &RxpathSample) -> Vec<u64> {
    sample.protocols["tcp"].stages.iter().map(|stage| stage.latency.sum_ns).collect()
}

#[test]
fn what_was_there_before_does_not_count() {
    let earlier = tcp(path(&[("device_to_ip", &[10]), ("ip_to_tcp", &[20])]));
    let later = tcp(path(&[("device_to_ip", &[10, 1]), ("ip_to_tcp", &[20, 2])]));
    let since = RxpathSample::in_window(Some(&earlier), &later);
    assert_eq!((sums(&since), since.protocols["tcp"].total.sum_ns), (vec![1, 2], 3));
    assert_eq!(RxpathSample::in_window(None, &later), later);
}

#[test]
fn one_total_that_went_backwards_makes_all_of_them_new() {
    let earlier = tcp(path(&[("device_to_ip", &[10]), ("ip_to_tcp", &[20])]));
    let later = tcp(path(&[("device_to_ip", &[40]), ("ip_to_tcp", &[5])]));
    assert_eq!(RxpathSample::in_window(Some(&earlier), &later), later);
}

#[test]
fn stages_are_added_by_name_in_the_order_of_the_way() {
    let mut sum = RxpathSample::default();
    let one = tcp(path(&[("device_to_tcp", &[1]), ("tcp_to_read", &[2])]));
    sum.add(&one);
    sum.add(&one);
    assert_eq!(sums(&sum), [2, 4]);
    assert_eq!(sum.protocols["tcp"].stages[0].name, "device_to_tcp");
}
