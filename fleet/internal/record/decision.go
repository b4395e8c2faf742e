package record

// DecisionPerPage bounds a page of picked clusters, in names.
const DecisionPerPage = 3000

// DecisionPage is a part of the clusters that a decision picked, ascending.
type DecisionPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

// DecisionPages is how many pages the clusters of a decision take.
func DecisionPages(clusters int) int { return (clusters + DecisionPerPage - 1) / DecisionPerPage }
