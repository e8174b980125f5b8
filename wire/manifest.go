package wire

import "github.com/piecelease/fetcher/share"

// AppendManifestRequest encodes a request for the manifest of share id.
func AppendManifestRequest(dst []byte, id share.ID) []byte {
	c := coder{b: dst}
	c.share(1, &id)
	return c.b
}

// ParseManifestRequest reads a request for a manifest.
func ParseManifestRequest(b []byte) (id share.ID, err error) {
	c := coder{b: b, reading: true}
	for c.next() {
		c.share(1, &id)
	}
	c.need(c.shared, "manifest request: no share")
	return id, c.err
}

// AppendManifestHeader encodes the answer to a request for a manifest. If the
// status is OK the size bytes of the manifest follow the header's frame.
func AppendManifestHeader(dst []byte, p Reply, size int64) []byte {
	c := coder{b: dst}
	if p.Status != OK {
		size = 0
	}
	c.manifestHeader(&p, &size)
	return c.b
}

// ParseManifestHeader reads the answer to a request for a manifest. size is
// from 1 to share.MaxManifest bytes if the status is OK and 0 otherwise.
func ParseManifestHeader(b []byte) (p Reply, size int64, err error) {
	c := coder{b: b, reading: true}
	for c.next() {
		c.manifestHeader(&p, &size)
	}
	c.need((p.Status == OK) == (size > 0), "manifest header: %d bytes with status %v", size, p.Status)
	return p, size, c.err
}

func (c *coder) manifestHeader(p *Reply, size *int64) {
	c.reply(1, &p.Status, &p.Retry, &p.Reason)
	varint(c, 4, size, share.MaxManifest)
	c.notAllowed(5, &p.Reason)
	c.coded(6, &p.Reason)
	c.bool(7, &p.Whole)
	p.Whole = p.Whole && p.Status == OK
}
