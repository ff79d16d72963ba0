//! The page of rights: the table of capabilities, and what else a pod of the agent has to be given, or never
//! needs.

use std::io::{self, Write};

use crate::host::RIGHTS;

const HEAD: &str = "# Rights

<!-- Made from the table in `sysprobe-agent/src/host/privilege.rs` by `cargo xtask docs`; edit that.
What is not the table is in `sysprobe-agent/src/docs/rights.rs`. -->

What the agent may do on a node, and what happens where it may not. `sysprobe check` says what it
lacks where it runs; start it with the rights that the agent has, as in `kubectl exec`.

## Capabilities

| capability | kernels | what for | without it |
|---|---|---|---|
";

const REST: &str = "
The first two are what the agent needs, with `CAP_SYS_RESOURCE` on old kernels. `CAP_SYS_ADMIN`
stands for both in every kernel, and should not be given for that; where kprobes ask for it, `sysctl
kernel.perf_event_paranoid=2` on the node does as well. The last two are for who wants to have what
stands beside them. (`CAP_DAC_OVERRIDE` stands for `CAP_DAC_READ_SEARCH`, and gives more.)

No other capability is of any use. A test takes each of them away from root, one by one, and finds
the same domains working through the same hooks; it takes all of them away at once on the oldest and
the newest kernels, and finds the same again.

```yaml
securityContext:
  runAsUser: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
    add: [BPF, PERFMON] # and SYS_RESOURCE, if nodes have kernels before 5.11
```

## What else a pod needs

- **User 0.** Kubernetes gives a container's capabilities to user 0 only: others would have to get
  them from the program's file, which `allowPrivilegeEscalation: false` (`no_new_privs`) forbids,
  and ambient capabilities cannot be asked for. Files of container runtimes and service account
  tokens are root's, too: user 0 needs no capability to read them.
- **The host's PID namespace** (`hostPID: true`): tasks and sockets that are older than the agent,
  threads by state and load averages are read by iterators that see the agent's namespace only.
  `sysprobe check` then says `processes  all of the host`.
- **The host's cgroup file systems**, read-only: `/sys/fs/cgroup` as a `hostPath`, anywhere in the
  container, with `cgroup_root` in the configuration (or `--cgroup-root`) naming the place. Names
  are the host's, whatever cgroup namespace the container has; what it has at its own
  `/sys/fs/cgroup` is its part of them. A mount that is read-only leaves those below it as they are,
  such as the hierarchies of cgroup v1: `recursiveReadOnly` (Kubernetes 1.31, containerd 2.0, Linux
  5.12) makes them read-only as well. Without it user 0 could write there; the agent opens nothing
  for writing.
- **The kernel's types**, which every container sees in its own `/sys/kernel/btf/vmlinux`. Nothing
  has to be mounted.
- **A directory for the local socket**, writable: `/run/sysprobe`. A `hostPath` lets commands on the
  node ask the agent; an `emptyDir` is enough for `kubectl exec`.
- **Names of pods**, from one source at least: a service account that may `get`, `list` and `watch`
  `pods`, and `NODE_NAME` in the environment; or the kubelet, with a service account that may `get`
  `nodes/pods` (`nodes/proxy` before Kubernetes 1.33); or the runtime's socket, as a `hostPath`; or
  the files in which the runtime keeps what it runs (such as `/run/containerd`), read-only, with the
  containers' own file systems mounted below them, of which the same is true. The service account is
  the smallest right of these. Only those that are used need to be there (`[pods]` in the
  configuration).
- **The node's network devices**, for the links in `sysprobe use` only: `/sys/class/net` and
  `/sys/devices` as `hostPath`s beside one another, read-only. Without them it cannot tell which
  links leave the node.
- **The system calls `bpf` and `perf_event_open`**, where a seccomp profile is on. Profiles of
  current runtimes (`RuntimeDefault`) allow them to who has `CAP_BPF` and `CAP_PERFMON`, those of
  older ones only with `CAP_SYS_ADMIN`: then a profile of your own, or `Unconfined`.
  `perf_event_open` is for kprobes only. Where SELinux is enforced, containers' usual type may not
  use `bpf`; `spc_t` may.
- **A kernel that is not locked down** for confidentiality (`/sys/kernel/security/lockdown`): then
  programs may not read its memory.

## What it never needs

- `privileged: true`, or a capability that is not in the table.
- The host's network namespace (`hostNetwork`): what is measured is measured on the whole node.
- The host's IPC and UTS namespaces, devices, `/dev`, debugfs, tracefs, the BPF file system, kernel
  modules or headers.
- Write access to any path of the host but the socket's directory, and to its own root file system.
- Rights to change anything in Kubernetes, or to read anything in it but pods.
";

pub(super) fn write(out: &mut impl Write) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    for right in RIGHTS {
        writeln!(
            out,
            "| `{}` | {} | to {} | {} |",
            right.capability, right.kernels, right.does, right.without
        )?;
    }
    out.write_all(REST.as_bytes())
}
