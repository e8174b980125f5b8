package wire

import "github.com/piecelease/fetcher/share"

// ManifestRequest asks for the manifest of a share.
type ManifestRequest struct {
	Share  share.ID
	Others bool // peers that have the manifest do in its place
}

func (m *ManifestRequest) fields(c *coder) {
	c.share(1, &m.Share)
	c.bool(2, &m.Others)
}

// AppendManifestRequest encodes a request for a manifest.
func AppendManifestRequest(dst []byte, m ManifestRequest) []byte {
	c := coder{b: dst}
	m.fields(&c)
	return c.b
}

// ParseManifestRequest reads a request for a manifest.
func ParseManifestRequest(b []byte) (m ManifestRequest, err error) {
	c := coder{b: b, reading: true}
	for c.next() {
		m.fields(&c)
	}
	c.need(c.shared, "manifest request: no share")
	return m, c.err
}

// AppendManifestHeader encodes the answer to a request for a manifest. If the
// status is OK the size bytes of the manifest follow the header's frame.
func AppendManifestHeader(dst []byte, p Reply, size int64) []byte {
	c := coder{b: dst}
	if p.Status != OK {
		size = 0
	}
	p.settle()
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
	p.settle()
	p.Reason.settle(c.notAllowed && p.Status == Refused)
	c.need((p.Status == OK) == (size > 0), "manifest header: %d bytes with status %v", size, p.Status)
	return p, size, c.err
}

func (c *coder) manifestHeader(p *Reply, size *int64) {
	c.reply(1, &p.Status, &p.Retry, &p.Reason)
	varint(c, 4, size, share.MaxManifest)
	c.barred(5, &p.Reason)
	c.coded(6, &p.Reason)
	c.bool(7, &p.Whole)
	c.peers(8, &p.Others, MaxOthers)
}

// settle drops what means nothing with the status.
func (r *Reply) settle() {
	if r.Whole = r.Whole && r.Status == OK; r.Status == OK {
		r.Reason = Reason{}
	}
	if r.Others = firstOf(r.Others, MaxOthers); r.Status != Busy {
		r.Others = nil
	}
}
