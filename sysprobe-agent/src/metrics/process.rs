//! The agent's own CPU time, memory and file descriptors, for the usual `process_*` metrics.

/// Fields of `/proc/self/stat`, counted after the command's closing parenthesis.
const UTIME: usize = 11;
const STIME: usize = 12;
const START_TIME: usize = 19;
const RSS: usize = 21;

pub(crate) fn cpu_seconds() -> Option<f64> {
    Some((field(UTIME)? + field(STIME)?) / ticks_per_second()?)
}

pub(crate) fn resident_bytes() -> Option<f64> {
    Some(field(RSS)? * system_value(libc::_SC_PAGESIZE)?)
}

pub(crate) fn open_descriptors() -> Option<f64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

pub(crate) fn start_time_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + field(START_TIME)? / ticks_per_second()?)
}

fn field(number: usize) -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command may hold spaces and parentheses; what follows the last parenthesis is numbers.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number)?.parse().ok()
}

fn ticks_per_second() -> Option<f64> {
    system_value(libc::_SC_CLK_TCK)
}

fn system_value(name: libc::c_int) -> Option<f64> {
    // SAFETY: `sysconf` has no preconditions.
    let value = unsafe { libc::sysconf(name) };
    (value > 0).then_some(value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_itself() {
        assert!(cpu_seconds().is_some());
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1e5));
        assert!(open_descriptors().is_some_and(|count| count >= 3.0));
        assert!(start_time_seconds().is_some_and(|seconds| seconds > 1e9));
    }
}
