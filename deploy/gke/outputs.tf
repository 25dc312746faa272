output "credentials_command" {
  description = "Writes the kubeconfig."
  value       = "gcloud container clusters get-credentials ${google_container_cluster.cluster.name} --zone ${var.zone} --project ${var.project}"
}

output "gpu_pools" {
  description = "GPU pools with their machine types."
  value       = { for pool in google_container_node_pool.gpu : pool.name => pool.node_config[0].machine_type }
}
