package record

// CheckObject records that a check object may exist on a cluster. It is written before the object
// is applied, and deleted after the object is gone, so that another engine can remove the objects
// of an engine that died.
type CheckObject struct {
	Format int `json:"format"`
	// Run and RunUID identify the run that measures, Epoch is the epoch of its lease.
	Run    string `json:"run"`
	RunUID string `json:"runUID"`
	Epoch  int64  `json:"epoch"`
	// Cluster and ClusterUID identify the cluster of the object. Check is the name of its check.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID,omitempty"`
	Check      string `json:"check"`
}

// CheckObjectsPrefix is the prefix of the keys of check objects.
const CheckObjectsPrefix = "checkobject/"

// CheckObjectKey returns the key of a check object; id is unique per placement and cluster.
func CheckObjectKey(placement, cluster, id string) string {
	return CheckObjectsPrefix + placement + "/" + cluster + "/" + id
}
