variable "name" {
  description = "Name of the system and the region; the beginning of all names."
  type        = string
}

variable "node" {
  description = "The node that this document promotes, by its id in the topology."
  type        = string
}

variable "role_arn" {
  description = "Role as which the automation acts."
  type        = string
}

variable "task" {
  description = "Where the failover's tasks run: cluster, family of the definition, name of its container, subnets, security group and log group."
  type = object({
    cluster           = string
    definition        = string
    container         = string
    subnet_ids        = list(string)
    security_group_id = string
    log_group         = string
  })
}

variable "database" {
  description = "The node's RDS instance, and the backups that it is to have as a primary."
  type        = object({ identifier = string, retention_days = number, window = string })
}

variable "fences" {
  description = "By old primary, where its subnets are and the ACL that allows nothing."
  type        = map(object({ region = string, network_acl_id = string, subnet_ids = list(string) }))
}

variable "gateway_urls" {
  description = "Gateways of this region. One of them has to confirm that commits go on."
  type        = list(string)
}

variable "approval" {
  description = "Topic that asks, who may answer, how many have to, and for how long it waits."
  type        = object({ topic_arn = string, approvers = list(string), minimum = number, hours = number })
}
