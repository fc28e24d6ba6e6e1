//! Sockets and names.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::net::{IpAddr, Ipv4Addr};
use std::ptr::null_mut;

use libc::{addrinfo, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t};

use crate::fiber::{enter, is_simulated};
use crate::hooks::streams::{gather, room, scatter};
use crate::hooks::{bytes, bytes_mut, interpose, next};
use crate::kernel::{Answer, Kernel};

/// Writes an address where the caller wants it, and its length.
///
/// # Safety
///
/// Both places must be valid or null.
unsafe fn put_address(address: &[u8], at: *mut sockaddr, length: *mut socklen_t) {
    if at.is_null() || length.is_null() {
        return;
    }
    // SAFETY: the caller says how much room there is.
    unsafe {
        let fits = address.len().min(*length as usize);
        bytes_mut(at.cast(), fits).copy_from_slice(&address[..fits]);
        *length = address.len() as socklen_t;
    }
}

/// # Safety
///
/// The message must have a vector, and an address or none.
unsafe fn send_message(
    kernel: &dyn Kernel,
    descriptor: c_int,
    message: &msghdr,
    flags: c_int,
) -> Answer<i64> {
    // SAFETY: the caller answers for the message.
    let (data, to) = unsafe {
        (
            gather(message.msg_iov, message.msg_iovlen),
            bytes(message.msg_name, message.msg_namelen as usize),
        )
    };
    kernel.send(descriptor, &data, flags, (!to.is_empty()).then_some(to)).map(|n| n as i64)
}

/// # Safety
///
/// The message must have a vector, and room for an address or none.
unsafe fn receive_message(
    kernel: &dyn Kernel,
    descriptor: c_int,
    message: &mut msghdr,
    flags: c_int,
) -> Answer<i64> {
    // SAFETY: the caller answers for the message.
    let mut whole = unsafe { room(message.msg_iov, message.msg_iovlen) };
    let (received, from) = kernel.receive(descriptor, &mut whole, flags)?;
    // SAFETY: no more is received than there is room for.
    unsafe { scatter(message.msg_iov, message.msg_iovlen, &whole[..received]) };
    if let Some(from) = from {
        // SAFETY: the message says how much room there is for an address.
        unsafe { put_address(&from, message.msg_name.cast(), &raw mut message.msg_namelen) };
    }
    message.msg_controllen = 0;
    message.msg_flags = 0;
    Ok(received as i64)
}

interpose! {
    fn socket(kernel, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        kernel.socket(domain, kind, protocol).map(i64::from)
    }
    fn socketpair(kernel, domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int {
        let pair = kernel.socket_pair(domain, kind, protocol)?;
        // SAFETY: the caller passes room for two descriptors.
        unsafe { *ends.cast::<[c_int; 2]>() = pair };
        Ok(0)
    }
    fn bind(kernel, descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        // SAFETY: the caller passes an address of this length.
        kernel.bind(descriptor, unsafe { bytes(address.cast(), length as usize) }).map(|()| 0)
    }
    fn listen(kernel, descriptor: c_int, backlog: c_int) -> c_int {
        kernel.listen(descriptor, backlog).map(|()| 0)
    }
    fn accept(
        kernel,
        descriptor: c_int,
        address: *mut sockaddr,
        length: *mut socklen_t
    ) -> c_int {
        let (accepted, from) = kernel.accept(descriptor, 0)?;
        // SAFETY: the caller passes a place for the address, or null.
        unsafe { put_address(&from, address, length) };
        Ok(accepted.into())
    }
    fn accept4(
        kernel,
        descriptor: c_int,
        address: *mut sockaddr,
        length: *mut socklen_t,
        flags: c_int
    ) -> c_int {
        let (accepted, from) = kernel.accept(descriptor, flags)?;
        // SAFETY: the caller passes a place for the address, or null.
        unsafe { put_address(&from, address, length) };
        Ok(accepted.into())
    }
    fn connect(kernel, descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        // SAFETY: the caller passes an address of this length.
        kernel.connect(descriptor, unsafe { bytes(address.cast(), length as usize) }).map(|()| 0)
    }
    fn shutdown(kernel, descriptor: c_int, how: c_int) -> c_int {
        kernel.shutdown(descriptor, how).map(|()| 0)
    }
    fn send(
        kernel,
        descriptor: c_int,
        buffer: *const c_void,
        length: usize,
        flags: c_int
    ) -> ssize_t {
        // SAFETY: the caller passes so many bytes.
        kernel.send(descriptor, unsafe { bytes(buffer, length) }, flags, None).map(|n| n as i64)
    }
    fn sendto(
        kernel,
        descriptor: c_int,
        buffer: *const c_void,
        length: usize,
        flags: c_int,
        address: *const sockaddr,
        address_length: socklen_t
    ) -> ssize_t {
        // SAFETY: the caller passes so many bytes, and an address of this length or null.
        let (data, to) = unsafe {
            (bytes(buffer, length), bytes(address.cast(), address_length as usize))
        };
        kernel.send(descriptor, data, flags, (!to.is_empty()).then_some(to)).map(|n| n as i64)
    }
    fn sendmsg(kernel, descriptor: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the caller passes a message with a vector, and an address or null.
        unsafe { send_message(kernel, descriptor, &*message, flags) }
    }
    fn recv(
        kernel,
        descriptor: c_int,
        buffer: *mut c_void,
        length: usize,
        flags: c_int
    ) -> ssize_t {
        // SAFETY: the caller passes room for so many bytes.
        let room = unsafe { bytes_mut(buffer, length) };
        kernel.receive(descriptor, room, flags).map(|(n, _)| n as i64)
    }
    fn recvfrom(
        kernel,
        descriptor: c_int,
        buffer: *mut c_void,
        length: usize,
        flags: c_int,
        address: *mut sockaddr,
        address_length: *mut socklen_t
    ) -> ssize_t {
        // SAFETY: the caller passes room for so many bytes.
        let room = unsafe { bytes_mut(buffer, length) };
        let (received, from) = kernel.receive(descriptor, room, flags)?;
        if let Some(from) = from {
            // SAFETY: the caller passes a place for the address, or null.
            unsafe { put_address(&from, address, address_length) };
        }
        Ok(received as i64)
    }
    fn recvmsg(kernel, descriptor: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the caller passes a message with a vector.
        unsafe { receive_message(kernel, descriptor, &mut *message, flags) }
    }
    fn sendmmsg(
        kernel,
        descriptor: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int
    ) -> c_int {
        let mut sent = 0;
        while sent < count as usize {
            // SAFETY: the caller passes so many messages.
            let message = unsafe { &mut *messages.add(sent) };
            // SAFETY: each has a vector, and an address or null.
            match unsafe { send_message(kernel, descriptor, &message.msg_hdr, flags) } {
                Ok(bytes) => message.msg_len = bytes as c_uint,
                Err(number) if sent == 0 => return Err(number),
                Err(_) => break,
            }
            sent += 1;
        }
        Ok(sent as i64)
    }
    fn recvmmsg(
        kernel,
        descriptor: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        _timeout: *mut libc::timespec
    ) -> c_int {
        let mut received = 0;
        let mut flags = flags;
        while received < count as usize {
            // SAFETY: the caller passes so many messages.
            let message = unsafe { &mut *messages.add(received) };
            let one = flags & !libc::MSG_WAITFORONE;
            // SAFETY: each has a vector, and room for an address or null.
            match unsafe { receive_message(kernel, descriptor, &mut message.msg_hdr, one) } {
                Ok(bytes) => message.msg_len = bytes as c_uint,
                Err(number) if received == 0 => return Err(number),
                Err(_) => break,
            }
            received += 1;
            if flags & libc::MSG_WAITFORONE != 0 {
                flags |= libc::MSG_DONTWAIT;
            }
        }
        Ok(received as i64)
    }
    fn sockatmark(_kernel, _descriptor: c_int) -> c_int { Ok(0) }
    fn getsockname(
        kernel,
        descriptor: c_int,
        address: *mut sockaddr,
        length: *mut socklen_t
    ) -> c_int {
        let name = kernel.socket_name(descriptor, false)?;
        // SAFETY: the caller passes a place for the address.
        unsafe { put_address(&name, address, length) };
        Ok(0)
    }
    fn getpeername(
        kernel,
        descriptor: c_int,
        address: *mut sockaddr,
        length: *mut socklen_t
    ) -> c_int {
        let name = kernel.socket_name(descriptor, true)?;
        // SAFETY: the caller passes a place for the address.
        unsafe { put_address(&name, address, length) };
        Ok(0)
    }
    fn getsockopt(
        kernel,
        descriptor: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut socklen_t
    ) -> c_int {
        // SAFETY: the caller says how much room there is.
        let room = unsafe { bytes_mut(value, *length as usize) };
        let used = kernel.socket_option(descriptor, level, name, room)?;
        // SAFETY: as above.
        unsafe { *length = used as socklen_t };
        Ok(0)
    }
    fn setsockopt(
        kernel,
        descriptor: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: socklen_t
    ) -> c_int {
        // SAFETY: the caller passes a value of this length.
        let value = unsafe { bytes(value, length as usize) };
        kernel.set_socket_option(descriptor, level, name, value).map(|()| 0)
    }
}

/// A result of `getaddrinfo`, with the room for its address.
#[repr(C)]
struct Found {
    entry: addrinfo,
    address: libc::sockaddr_storage,
}

/// `getaddrinfo`: hosts know the names of hosts, and numbers.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> c_int {
    if !is_simulated() {
        let next = next!(getaddrinfo: unsafe extern "C" fn(
            *const c_char,
            *const c_char,
            *const addrinfo,
            *mut *mut addrinfo
        ) -> c_int);
        // SAFETY: the caller's own arguments.
        return unsafe { next(node, service, hints, result) };
    }
    enter(|kernel| {
        // SAFETY: the caller passes texts or null.
        let (name, port) = unsafe { (text(node), text(service)) };
        let addresses = match &name {
            None => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            Some(name) => name.parse().map_or_else(|_| kernel.resolve(name), |ip| vec![ip]),
        };
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(0);
        // SAFETY: the caller passes hints or null.
        let kind = unsafe { hints.as_ref() }.map_or(libc::SOCK_STREAM, |hints| hints.ai_socktype);
        if addresses.is_empty() {
            return libc::EAI_NONAME;
        }
        let found =
            addresses.iter().rev().fold(null_mut(), |rest, ip| found(*ip, port, kind, rest));
        // SAFETY: the caller passes a place for the list.
        unsafe { *result = found };
        0
    })
}

/// # Safety
///
/// `at` must be null or a text that ends with a zero.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: see above.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// An entry of the list that `getaddrinfo` returns, before the rest of the list.
fn found(ip: IpAddr, port: u16, kind: c_int, rest: *mut addrinfo) -> *mut addrinfo {
    // SAFETY: all-zero values of these types are valid.
    let mut found: Box<Found> = Box::new(unsafe { std::mem::zeroed() });
    let (family, length) = match ip {
        IpAddr::V4(ip) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage has room for every sort of address.
            unsafe { *(&raw mut found.address).cast() = address };
            (libc::AF_INET, size_of::<libc::sockaddr_in>())
        }
        IpAddr::V6(ip) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: 0,
            };
            // SAFETY: the storage has room for every sort of address.
            unsafe { *(&raw mut found.address).cast() = address };
            (libc::AF_INET6, size_of::<libc::sockaddr_in6>())
        }
    };
    let entry = Box::into_raw(found);
    // SAFETY: the entry was just made, and belongs to nobody else.
    unsafe {
        (*entry).entry.ai_family = family;
        (*entry).entry.ai_socktype = kind;
        (*entry).entry.ai_addrlen = length as socklen_t;
        (*entry).entry.ai_addr = (&raw mut (*entry).address).cast();
        (*entry).entry.ai_next = rest;
    }
    entry.cast()
}

/// `freeaddrinfo`.
///
/// # Safety
///
/// As for the C library's function.
// SAFETY: has the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeaddrinfo(list: *mut addrinfo) {
    if !is_simulated() {
        let next = next!(freeaddrinfo: unsafe extern "C" fn(*mut addrinfo));
        // SAFETY: the caller's own argument.
        return unsafe { next(list) };
    }
    enter(|_| {
        let mut at = list;
        while !at.is_null() {
            // SAFETY: a host's list was made by `found`, entry by entry.
            let entry = unsafe { Box::from_raw(at.cast::<Found>()) };
            at = entry.entry.ai_next;
        }
    });
}
