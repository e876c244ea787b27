//! Tries kinds of memory: requests it, writes to it, and checks what the kernel provided.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fullbore_linux::BackedBy;
use fullbore_linux::{Backing, MOST_HUGE, Pages};
use fullbore_linux::{huge_page_size, page_size};
use rustix::fs::{MemfdFlags, memfd_create};

use super::attempt::{BYTES, Given, Stop, at, compare, io_at, pattern};
use fullbore_host::size;

/// Allocates two pages of `backing`, writes to all of both, reads them back, and checks their size.
fn on(backing: Backing, operation: &str) -> Result<String, Stop> {
    let page = huge_page_size().unwrap_or(2 << 20);
    // Two pages of 512 MiB would be more memory than many machines have.
    if page > MOST_HUGE {
        return Err(Stop::NotTried(format!(
            "a huge page has {} here, and fullbore asks for none above {}",
            size::format(page as u64),
            size::format(MOST_HUGE as u64)
        )));
    }
    let mut pages = Pages::options().backing(backing).map(2 * page)?;
    let sent = pattern(pages.len());
    pages.copy_from_slice(&sent);
    compare(&sent, &pages)?;
    match pages.backed_by() {
        backed @ BackedBy::Known { huge, .. } if backed.is_huge() => {
            Ok(format!("{} on huge pages", size::format(huge as u64)))
        }
        BackedBy::Known { huge, base, .. } => Err(Stop::seen(
            operation,
            format!(
                "the kernel gave {} on huge pages and {} on base pages",
                size::format(huge as u64),
                size::format(base as u64)
            ),
        )),
        BackedBy::Unknown { reason } => Err(Stop::NotTried(format!(
            "cannot determine which pages back memory: {reason}"
        ))),
        other => Err(Stop::NotTried(format!("what backs memory: {other}"))),
    }
}

pub(super) fn huge_pages(_: &Given) -> Result<String, Stop> {
    on(Backing::Huge, "MADV_HUGEPAGE")
}

pub(super) fn hugetlb(_: &Given) -> Result<String, Stop> {
    on(Backing::HugeTlb, "MAP_HUGETLB")
}

pub(super) fn page_flags(_: &Given) -> Result<String, Stop> {
    let mut pages = Pages::new(4 * page_size())?;
    pages.touch();
    let flags = File::open("/proc/kpageflags").map_err(io_at("open /proc/kpageflags"))?;
    flags
        .read_at(&mut [0; 8], 0)
        .map_err(io_at("read /proc/kpageflags"))?;
    match pages.backed_by() {
        BackedBy::Known { source, base, .. } if source.contains("kpageflags") => {
            Ok(format!("{} seen page by page", size::format(base as u64)))
        }
        BackedBy::Known { source, .. } => Err(Stop::seen(
            "/proc/self/pagemap",
            format!("page frames are hidden; {source} is used instead"),
        )),
        BackedBy::Unknown { reason } => Err(Stop::seen("/proc/self/pagemap", reason)),
        other => Err(Stop::seen("/proc/self/pagemap", other.to_string())),
    }
}

pub(super) fn memfd(_: &Given) -> Result<String, Stop> {
    let sent = pattern(BYTES);
    let file: File = memfd_create("fullbore-doctor", MemfdFlags::CLOEXEC)
        .map_err(at("memfd_create"))?
        .into();
    file.write_all_at(&sent, 0).map_err(io_at("write"))?;
    let mut came = vec![0; BYTES];
    file.read_exact_at(&mut came, 0).map_err(io_at("read"))?;
    compare(&sent, &came)?;
    Ok(format!("{BYTES} bytes written and read"))
}

pub(super) fn locked(_: &Given) -> Result<String, Stop> {
    let pages = Pages::options().locked(true).map(1 << 20)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let locked = fullbore_host::machine::field(&status, "VmLck").unwrap_or("an unknown amount");
    let seen = format!(
        "{} requested, {locked} locked",
        size::format(pages.len() as u64)
    );
    if locked.starts_with("0 ") {
        return Err(Stop::seen("mlock", seen));
    }
    Ok(seen)
}
