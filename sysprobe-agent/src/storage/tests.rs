//! Grants of storage, and the memory that it takes.

use super::*;
use crate::plan::fixture::facts;

const MIB: u64 = 1 << 20;

fn usage(limit: u64, used: u64) -> Usage {
    Usage { limit: limit * MIB, used: used * MIB }
}

#[test]
fn nothing_is_granted_near_a_limit() {
    let free = |groups: &[Usage]| free(1000 * MIB, 0, groups.iter().copied());
    assert_eq!(free(&[]), 500 * MIB, "without a limit, half of all there may be");
    assert_eq!(
        free(&[usage(256, 60)]),
        (256 - 32 - 60) * MIB / 2,
        "an eighth of the limit is the agent's own"
    );
    assert_eq!(free(&[usage(64, 50)]), 0, "but not less than 16 MiB");
    assert_eq!(free(&[usage(256, 60), usage(80, 70)]), 0, "the group above is as good a limit");
    assert_eq!(free(&[usage(10, 60)]), 0, "a limit that was lowered below what is in use");
}

#[test]
fn what_is_in_use_counts_where_no_group_tells() {
    assert_eq!(free(100 * MIB, 40 * MIB, std::iter::empty()), 30 * MIB);
    assert_eq!(free(100 * MIB, 140 * MIB, std::iter::empty()), 0);
}

#[test]
fn one_percent_of_the_node_is_the_most_unless_configured() {
    let mut facts = facts();
    facts.scale.memory_bytes = 6400 * MIB;
    assert_eq!(Limits::new(&facts, 0).most_bytes, 64 * MIB);
    assert_eq!(Limits::new(&facts, 7).most_bytes, 7 * MIB);
}

#[test]
fn a_connection_takes_one_small_allocation_and_the_list() {
    let of_socket = |value| Limits::new(&facts(), 0).bytes_of(Holder::Socket, value);
    assert_eq!(of_socket(size_of::<sysprobe_common::tcp::Socket>()) + LIST_BYTES, 320);
    assert_eq!([8, 56, 57, 192].map(of_socket), [128, 128, 192, 512]);
}

#[test]
fn a_task_has_a_list_node_as_well() {
    let of_task = |value| Limits::new(&facts(), 0).bytes_of(Holder::Task, value);
    assert_eq!(of_task(size_of::<sysprobe_common::vfs::TaskCall>()), 192);
    assert_eq!(of_task(size_of::<sysprobe_common::sched::slices::StoredTask>()) + LIST_BYTES, 704);
}

#[test]
fn older_kernels_allocate_unused_padding_with_each_value() {
    let bytes_of = |kernel: &str, value| {
        Limits::new(&Facts { kernel: kernel.into(), ..facts() }, 0).bytes_of(Holder::Socket, value)
    };
    assert_eq!(["5.15.0-130-generic", "6.2.16", "6.3.0"].map(|kernel| bytes_of(kernel, 8)), [192, 192, 128]);
    assert_eq!(["5.15.0-130-generic", "6.3.0"].map(|kernel| bytes_of(kernel, 160)), [512, 256]);
}
