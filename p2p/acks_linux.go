package p2p

import (
	"time"

	"golang.org/x/sys/unix"
)

// inVain returns how long ago anything was last acknowledged on a connection whose system tries something
// again that was not; negative if it does not. Not open: it is no TCP connection, or it is closed.
func inVain(s socket) (acked time.Duration, open bool) {
	if s == nil {
		return 0, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, false
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || info == nil {
		return 0, false
	}
	if info.Retransmits == 0 && info.Probes == 0 {
		return -1, true
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond, true
}
