package record

// SelectionPerPage is the maximum number of names in a page of picked clusters.
const SelectionPerPage = 3000

// SelectionPage is a part of the picked clusters of a selection, ascending.
type SelectionPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

// SelectionPages returns the number of pages for the clusters of a selection.
func SelectionPages(clusters int) int { return (clusters + SelectionPerPage - 1) / SelectionPerPage }
