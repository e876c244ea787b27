//! How large the kernel lets pipes become, and whether these limits bind this process.

use serde::{Deserialize, Serialize};

use super::capabilities::Capabilities;
use super::files::Root;
use crate::size;
use crate::text::joined;

/// The limits for the sizes of pipes (pipe(7), "/proc files"), and whether they bind this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeLimits {
    /// The largest capacity in bytes that an unprivileged process may set.
    pub max_size: Option<u64>,
    /// Pages in all pipes of a user, above which a new pipe gets only one or two slots and no pipe can
    /// be enlarged; 0 for no limit.
    pub user_pages_soft: Option<u64>,
    /// Pages in all pipes of a user, above which no pipe can be created; 0 for no limit.
    pub user_pages_hard: Option<u64>,
    /// Whether this process has `CAP_SYS_RESOURCE` in the first user namespace, so that none of
    /// these limits binds it.
    pub privileged: bool,
    /// Whether the two limits of a user do not bind this process: it has `CAP_SYS_RESOURCE` or
    /// `CAP_SYS_ADMIN` in the first user namespace. `max_size` binds it still, unless it is
    /// `privileged`.
    pub exempt_from_user_pages: bool,
}

impl PipeLimits {
    /// Reads the limits of the machine under `root`.
    pub fn read(root: &Root) -> PipeLimits {
        let capabilities = Capabilities::read(root);
        PipeLimits {
            max_size: root.number("proc/sys/fs/pipe-max-size"),
            user_pages_soft: root.number("proc/sys/fs/pipe-user-pages-soft"),
            user_pages_hard: root.number("proc/sys/fs/pipe-user-pages-hard"),
            privileged: capabilities.sys_resource,
            exempt_from_user_pages: capabilities.sys_resource || capabilities.sys_admin,
        }
    }

    /// Returns the limits in words; `None` where none is known.
    pub(super) fn describe(&self) -> Option<String> {
        let pages = |name: &str, limit: Option<u64>| match limit? {
            0 => Some(format!("no {name} limit")),
            pages => Some(format!("{pages} pages ({name})")),
        };
        let (soft, hard) = (self.user_pages_soft, self.user_pages_hard);
        let a_user = joined([pages("soft", soft), pages("hard", hard)], ", ");
        let a_user = a_user.map(|limits| format!("{limits} per user"));
        let a_pipe = self
            .max_size
            .map(|size| format!("{} per pipe", size::format(size)));
        let lifted = match (self.privileged, self.exempt_from_user_pages) {
            (true, _) => "; not enforced for this process (CAP_SYS_RESOURCE)",
            (false, true) => {
                "; the limits per user are not enforced for this process (CAP_SYS_ADMIN)"
            }
            (false, false) => "",
        };
        Some(joined([a_pipe, a_user], "; ")? + lifted)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::Fixture;

    #[test]
    fn root_in_a_container_is_not_privileged() {
        let fixture = Fixture::new(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
            ("proc/self/uid_map", "0 1000 1\n1 100000 65536\n"),
        ]);
        let limits = fixture.machine().pipe_limits;
        assert!(!limits.privileged);
        assert!(!limits.exempt_from_user_pages);
    }

    #[test]
    fn without_sys_resource_the_administrator_is_bound_by_the_largest_size_only() {
        let fixture = Fixture::new(&[("proc/self/status", "CapEff:\t000001fffeffffff\n")]);
        let limits = fixture.machine().pipe_limits;
        assert!(!limits.privileged);
        assert!(limits.exempt_from_user_pages);
    }
}
