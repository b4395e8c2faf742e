package snapshot

// Changes is the difference between two sets. The IDs are in the order of a set.
type Changes struct {
	// Added are only in the second set, Removed only in the first.
	Added, Removed []ID
	// Changed are in both with different content. An object that is written in another version is
	// changed, under its new ID.
	Changed []ID
}

// Empty reports whether nothing differs.
func (c Changes) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed) == 0
}

// Compare returns the changes from the items of one set to the items of another, both in the
// order of a [Set]. It takes time linear in their lengths.
func Compare(a, b []Item) Changes {
	var c Changes
	for len(a) > 0 && len(b) > 0 {
		switch order := a[0].object().Compare(b[0].object()); {
		case order < 0:
			c.Removed, a = append(c.Removed, a[0].ID), a[1:]
		case order > 0:
			c.Added, b = append(c.Added, b[0].ID), b[1:]
		default:
			if a[0].ID != b[0].ID || a[0].Digest != b[0].Digest {
				c.Changed = append(c.Changed, b[0].ID)
			}
			a, b = a[1:], b[1:]
		}
	}
	c.Removed = appendIDs(c.Removed, a)
	c.Added = appendIDs(c.Added, b)
	return c
}

func appendIDs(ids []ID, items []Item) []ID {
	for _, item := range items {
		ids = append(ids, item.ID)
	}
	return ids
}
