package fetcher

import "github.com/piecelease/fetcher/share"

// ticketSecret is the secret of a ticket; nil if there is none.
func ticketSecret(ticketOrID string) *share.Secret {
	t, _ := share.Parse(ticketOrID) // ParseSource says what is wrong with it
	return t.Secret
}

// know makes the node prove to sources that it knows a secret, if there is one, until forget
// is called. asked is called when a source asks for it, or did in an earlier run.
func (n *Node) know(id share.ID, secret *share.Secret, asked func()) (forget func()) {
	if secret == nil {
		return func() {}
	}
	if n.state.Guarded(id) {
		asked()
	}
	return n.host.Know(id, *secret, asked)
}

// guarded makes the node give what a transfer fetches only to peers that know the secret of its
// ticket, as its source does, also after a restart without the source.
func (t *Transfer) guarded() {
	if t.asked.Swap(true) {
		return
	}
	n := t.node
	n.catalog.guard(t)
	if err := n.state.SaveGuarded(t.id); err != nil {
		n.log.Warn("after a restart, this node may give a share to peers that do not know its secret", "share", t.id.String(), "error", err)
	}
}

// Guarded says whether a source gives the share to those alone that know the secret of its
// ticket. What is here of it is then given likewise.
func (t *Transfer) Guarded() bool {
	return t.asked.Load() || t.secret != nil && t.node.catalog.offers.Secret(t.id) != nil
}

// guard restricts what is offered of a transfer, unless it is shared anyway, if a source has asked for the secret.
func (c *catalog) guard(t *Transfer) {
	if t.asked.Load() && c.shared(t.id) == nil && c.offers.Secret(t.id) == nil {
		c.offers.Guard(t.id, t.secret)
	}
}

// guardOf is what peers must know to have a share; nil: nothing.
func (n *Node) guardOf(id share.ID, opt ShareOptions) *share.Secret {
	switch secret := ticketSecret(opt.Ticket); {
	case !opt.Secret:
		return nil
	case secret != nil:
		return secret
	}
	return n.secretOf(id)
}
