package wire

import "github.com/piecelease/fetcher/share"

// AppendManifestRequest encodes a request for the manifest of share id.
func AppendManifestRequest(dst []byte, id share.ID) []byte { return appendShare(dst, 1, id) }

// ParseManifestRequest reads a request for a manifest.
func ParseManifestRequest(b []byte) (share.ID, error) {
	return parseShare("manifest request", b)
}

// AppendManifestHeader encodes the answer to a request for a manifest. If the
// status is OK the size bytes of the manifest follow the header's frame.
func AppendManifestHeader(dst []byte, p Reply, size int64) []byte {
	dst = appendReply(dst, 1, p)
	if p.Status == OK {
		dst = appendUint(dst, 4, uint64(size))
	}
	return dst
}

// ParseManifestHeader reads the answer to a request for a manifest. size is
// from 1 to share.MaxManifest bytes if the status is OK and 0 otherwise.
func ParseManifestHeader(b []byte) (p Reply, size int64, err error) {
	r := read("manifest header", b)
	for r.next() {
		switch r.num {
		case 1:
			p.Status = r.status()
		case 2:
			p.Retry = r.ms()
		case 3:
			p.Reason = r.text(MaxReason)
		case 4:
			size = int64(r.uint(share.MaxManifest))
		}
	}
	r.need((p.Status == OK) == (size > 0), "%d bytes with status %v", size, p.Status)
	return p, size, r.err
}

// parseShare reads a message that has a share and nothing else.
func parseShare(what string, b []byte) (share.ID, error) {
	var id share.ID
	r := read(what, b)
	for r.next() {
		if r.num == 1 {
			id = r.share()
		}
	}
	r.hasShare(id)
	return id, r.err
}
