//! How the heap is shared between the agent's threads.

/// A scrape is collected and written by any thread that is free. glibc gives threads heaps of their own
/// (arenas), up to eight for each CPU, and each keeps the most that a scrape ever took there. With 500
/// cgroups that lived for 15 seconds each, again and again, the agent had 104 MiB after five minutes, and
/// rising. With one heap for all threads it has at most 61 MiB in ten minutes, and 17 instead of 30 at first
/// (kernel 6.18). Its few threads rarely contend for it. Call this before other threads exist. Other C
/// libraries have one heap anyway.
pub(super) fn share_one() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain numbers. A failure has no consequences.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
