//! Names and numbers of errors.

/// `asm-generic/errno-base.h`, `errno.h`.
const ERRORS: [(&str, i32); 40] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("ESRCH", 3),
    ("EINTR", 4),
    ("EIO", 5),
    ("ENXIO", 6),
    ("E2BIG", 7),
    ("ENOEXEC", 8),
    ("EBADF", 9),
    ("ECHILD", 10),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EXDEV", 18),
    ("ENODEV", 19),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("ETXTBSY", 26),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("ESPIPE", 29),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("EPIPE", 32),
    ("ERANGE", 34),
    ("ENAMETOOLONG", 36),
    ("ENOSYS", 38),
    ("ENOTEMPTY", 39),
    ("ELOOP", 40),
    ("ENODATA", 61),
    ("EOVERFLOW", 75),
    ("EOPNOTSUPP", 95),
    ("EDQUOT", 122),
];

/// The number of an error with this name.
pub fn number(name: &str) -> Option<i32> {
    ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of an error, or its number.
pub fn shown(error: i32) -> String {
    let known = ERRORS.iter().find(|(_, number)| *number == error);
    known.map_or_else(|| format!("errno {error}"), |(name, _)| (*name).to_owned())
}
