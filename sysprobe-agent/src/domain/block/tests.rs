//! Slot counters: differences, device names and sums.

use sysprobe_common::cgroup::KERNEL;

use super::*;

fn stats(name: &str, writes: u32, queued_ns: u64) -> BlockStats {
    let mut stats = BlockStats::ZERO;
    stats.disk[..name.len()].copy_from_slice(name.as_bytes());
    stats.queued_ns[Operation::Write as usize] = queued_ns;
    stats.operations[Operation::Write as usize].latency[9] = writes;
    stats
}

#[test]
fn a_difference_keeps_the_later_name() {
    // The first reading fell between the slot's creation and its naming.
    let mut difference = stats("nvme0n1", 3, 40);
    difference.combine(&BlockStats::ZERO, u64::wrapping_sub, u32::wrapping_sub);
    assert_eq!(difference, stats("nvme0n1", 3, 40));
    // By now the device number belongs to another device.
    let mut difference = stats("sdb", 5, 50);
    difference.combine(&stats("sda", 4, 10), u64::wrapping_sub, u32::wrapping_sub);
    assert_eq!(difference, stats("sdb", 1, 40));
}

#[test]
fn devices_add_up_by_name() {
    let mut total = BlockSample::default();
    for gathered in [stats("sda", 3, 5), stats("", 1, 0), stats("sda", 4, 6)] {
        accumulate(&mut total, &gathered);
    }
    let of = |name: &str| {
        (total.devices[name].write.requests.latency.count(), total.devices[name].write.queued_ns)
    };
    assert_eq!((of("sda"), of("unknown")), ((7, 11), (1, 0)));
    assert_eq!(total.devices.len(), 2);
}

#[test]
fn keys_stand_for_cgroups_the_kernel_and_the_unknown() {
    let owner = |cgroup| DeviceKey(block::Key { cgroup, device: block::device(8, 1), pad: 0 }).owner();
    assert_eq!(
        [owner(7), owner(KERNEL), owner(0)],
        [SlotOwner::Cgroup(7), SlotOwner::Kernel, SlotOwner::Unknown]
    );
}
