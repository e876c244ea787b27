//! The capabilities of this process that lift limits which matter here.

use super::files::{Root, field};

/// The effective capabilities of this process, of those that lift limits which matter here.
///
/// The kernel asks for them with `capable()` (for pipes, fs/pipe.c, `pipe_set_size` and
/// `pipe_is_unprivileged_user`), which means the first user namespace. In a rootless container
/// all capabilities are shown as set but lift no limit, so they count as not set here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// Lifts the limits of a user's pipes.
    pub sys_admin: bool,
    /// Lifts all limits of pipes.
    pub sys_resource: bool,
}

impl Capabilities {
    /// Reads the effective capabilities from `/proc/self/status`; none where they cannot be read.
    pub fn read(root: &Root) -> Capabilities {
        // The numbers of include/uapi/linux/capability.h.
        const CAP_SYS_ADMIN: u32 = 21;
        const CAP_SYS_RESOURCE: u32 = 24;
        let status = root.text("proc/self/status");
        let status = status
            .filter(|_| in_first_user_namespace(root))
            .unwrap_or_default();
        let effective = field(&status, "CapEff").and_then(|set| u64::from_str_radix(set, 16).ok());
        let has = |capability: u32| effective.unwrap_or(0) & (1 << capability) != 0;
        Capabilities {
            sys_admin: has(CAP_SYS_ADMIN),
            sys_resource: has(CAP_SYS_RESOURCE),
        }
    }
}

/// Returns whether this process is in the first user namespace, which maps every ID to itself
/// (user_namespaces(7), "User and group ID mappings"). A kernel without namespaces has no map.
fn in_first_user_namespace(root: &Root) -> bool {
    root.text("proc/self/uid_map").is_none_or(|map| {
        let words: Vec<&str> = map.split_whitespace().collect();
        words == ["0", "0", "4294967295"]
    })
}
