package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// fuzz gives a decoder any bytes. What it accepts must encode, must read back as
// the same, and must mean the same to the generated code.
func fuzz(f *testing.F, names ...string) {
	f.Add([]byte{})
	f.Add([]byte("\xf0\xf0\xf0\xf0\x30\x00")) // a field number above the last
	for _, c := range codecs {
		b := c.append(nil, c.sample) // of other messages too
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	c := codecOf(names[0])
	for _, name := range names {
		o := codecOf(name)
		f.Add(o.append(o.append(nil, o.sample), o.sample))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := c.parse(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v does not wrap ErrMalformed", err)
			}
			return
		}
		again, err := c.parse(c.append(nil, m))
		if err != nil || !same(c, again, m) {
			t.Fatalf("%+v is read back as %+v, %v", m, again, err)
		}
		again, err = c.parse(c.regenerated(t, b))
		if err != nil || !same(c, again, m) {
			t.Fatalf("%+v means %+v to the generated code, %v", m, again, err)
		}
	})
}

// same compares two messages; a missing list equals an empty one.
func same(c codec, a, b any) bool {
	return reflect.DeepEqual(a, b) || bytes.Equal(c.append(nil, a), c.append(nil, b))
}

func FuzzParsePieceFrame(f *testing.F) {
	fuzz(f, "piece-request", "piece-request-pressed", "piece-cancel")
}
func FuzzParseHeader(f *testing.F) {
	fuzz(f, "piece-header", "piece-header-busy", "piece-header-elsewhere")
}
func FuzzParseManifestRequest(f *testing.F) { fuzz(f, "manifest-request") }
func FuzzParseProve(f *testing.F)           { fuzz(f, "prove-ask", "prove-source") }
func FuzzParseManifestHeader(f *testing.F) {
	fuzz(f, "manifest-header", "manifest-header-gone", "manifest-header-whole")
}
func FuzzParseEnvelope(f *testing.F) { fuzz(f, "envelope") }
func FuzzParseSubscribe(f *testing.F) {
	fuzz(f, "subscribe", "subscribe-mirror", "subscribe-offer", "subscribe-whole", "subscribe-mirrors-only")
}
func FuzzParseSubscribeResult(f *testing.F) { fuzz(f, "subscribe-result", "subscribe-result-code") }
func FuzzParseUnsubscribe(f *testing.F)     { fuzz(f, "unsubscribe", "unsubscribe-done") }
func FuzzParseHaveMap(f *testing.F)         { fuzz(f, "have-map") }
func FuzzParseHave(f *testing.F)            { fuzz(f, "have") }
func FuzzParseShareGone(f *testing.F)       { fuzz(f, "share-gone", "share-gone-code") }
func FuzzParseGoodbye(f *testing.F)         { fuzz(f, "goodbye") }
func FuzzParseLeaseRequest(f *testing.F)    { fuzz(f, "lease-request", "lease-request-source") }
func FuzzParseLeaseResponse(f *testing.F) {
	fuzz(f, "lease-response", "lease-response-source", "lease-response-code")
}
func FuzzParseLeaseProgress(f *testing.F) { fuzz(f, "lease-progress", "lease-progress-source") }
func FuzzParseLeaseReturned(f *testing.F) {
	fuzz(f, "lease-returned", "lease-returned-source", "lease-returned-code")
}
func FuzzParseLeasesAvailable(f *testing.F) { fuzz(f, "leases-available", "leases-available-source") }
func FuzzParseLeaseRevoked(f *testing.F)    { fuzz(f, "lease-revoked", "lease-revoked-source") }
func FuzzParsePieceDone(f *testing.F)       { fuzz(f, "piece-done") }
func FuzzParseSourceHas(f *testing.F)       { fuzz(f, "source-has") }
func FuzzParseSourceHasMore(f *testing.F)   { fuzz(f, "source-has-more") }
func FuzzParseSourceDown(f *testing.F)      { fuzz(f, "source-down", "source-down-member") }
func FuzzParseFleetMembers(f *testing.F)    { fuzz(f, "fleet-members") }
func FuzzParseFleetTerm(f *testing.F)       { fuzz(f, "fleet-term") }
func FuzzParseHold(f *testing.F)            { fuzz(f, "hold", "hold-name") }
func FuzzParseRenew(f *testing.F)           { fuzz(f, "renew") }
func FuzzParseRelease(f *testing.F)         { fuzz(f, "release") }
func FuzzParseHeld(f *testing.F)            { fuzz(f, "held", "held-refused") }
func FuzzParseHoldings(f *testing.F)        { fuzz(f, "holdings") }
func FuzzParseHoldingsPage(f *testing.F)    { fuzz(f, "holdings-page") }
func FuzzParseUsage(f *testing.F)           { fuzz(f, "usage") }
func FuzzParseUsageReport(f *testing.F)     { fuzz(f, "usage-report") }
func FuzzParseHoldingChanged(f *testing.F)  { fuzz(f, "holding-changed") }
func FuzzParsePassKeys(f *testing.F)        { fuzz(f, "pass-keys") }
func FuzzParsePassKeyList(f *testing.F)     { fuzz(f, "pass-key-list") }
func FuzzParseRedeem(f *testing.F)          { fuzz(f, "redeem") }
func FuzzParseExchange(f *testing.F)        { fuzz(f, "exchange") }
func FuzzParseSigned(f *testing.F)          { fuzz(f, "signed") }
func FuzzParsePay(f *testing.F)             { fuzz(f, "pay") }
func FuzzParsePaid(f *testing.F)            { fuzz(f, "paid") }
func FuzzParseAnnounce(f *testing.F)        { fuzz(f, "announce") }
func FuzzParseSay(f *testing.F)             { fuzz(f, "say") }
func FuzzParseHeard(f *testing.F)           { fuzz(f, "heard") }
func FuzzParseAnnounced(f *testing.F)       { fuzz(f, "announced") }
func FuzzParseSeek(f *testing.F)            { fuzz(f, "seek") }
func FuzzParseFound(f *testing.F)           { fuzz(f, "found") }
