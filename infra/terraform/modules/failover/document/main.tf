# The failover to one node as a document of Systems Manager Automation (docs/decisions/0077). An
# operator starts it; nothing else does. Every step says what state its failure leaves, and how to
# go on from there: that is what an operator reads in the console.

locals {
  run     = "{{ automation:EXECUTION_ID }}"
  program = "infra/image/src"
  log     = "The whole text is in the log group ${var.task.log_group}."

  # What runs as a task of the service image. `codes`: exit codes with which the automation goes on.
  stages = {
    preview = {
      program = "failover-preview.ts"
      next    = "approve"
      minutes = 15
      # 7: streams from the old primary are still open. That is what the fence is for.
      codes = ["0", "7"]
      environment = {
        FAILOVER_STAGE       = "preview"
        FAILOVER_NODE        = var.node
        FAILOVER_REGION      = var.node
        FAILOVER_FROM        = "{{ OldPrimary }}"
        FAILOVER_ACCEPT_LOSS = "{{ AcceptLoss }}"
      }
      left = "Nothing has been changed. ${local.log} Exit code 3: the primary answers, so there is nothing to fail over from (to leave it all the same, fence it by hand first). 6: promises would break; bring nodes back, or start again with AcceptLoss yes. 20: another node is to be promoted; start the document of its region. 21: OldPrimary is not the primary."
    }
    fenced = {
      program = "failover-preview.ts"
      next    = "fencedMore"
      minutes = 15
      # 22: it would lose more than was approved. That is asked again.
      codes = ["0", "22"]
      environment = {
        FAILOVER_STAGE       = "fenced"
        FAILOVER_NODE        = var.node
        FAILOVER_REGION      = var.node
        FAILOVER_FROM        = "{{ OldPrimary }}"
        FAILOVER_ACCEPT_LOSS = "{{ AcceptLoss }}"
        FAILOVER_APPROVED    = "{{ previewReport.Line }}"
      }
      left = "The old primary is cut off, and no node is promoted: no commits until one is, or until the fence is lifted. ${local.log} Exit code 3: the old primary still answers, so the fence does not hold. 6: start again with AcceptLoss yes, or bring nodes back. 20: start the document of the node that it names. Starting again is safe: the fence stays as it is."
    }
    authorize = {
      program = "authorize.ts"
      next    = "verifyStart"
      minutes = 20
      codes   = ["0"]
      environment = {
        AUTHORIZE_NODE   = var.node
        AUTHORIZE_REPORT = "{{ fencedReportRead.Line }}"
      }
      left = "${var.node} is promoted, and Highwater does not follow it yet: no commits. ${local.log} Start again with GoOnWith set to the id of the run that promoted. Exit code 4: it was not writable within ten minutes. 3: read why it was refused."
    }
    verify = {
      program = "failover-verify.ts"
      next    = null
      minutes = 20
      codes   = ["0"]
      environment = {
        FAILOVER_NODE   = var.node
        VERIFY_GATEWAYS = join(",", var.gateway_urls)
      }
      left = "The failover is done, and not verified. ${local.log} Exit code 4: no gateway of this region is ready; its /readyz has the reason (docs/reference/authority.md). Start again with GoOnWith set to the id of the run that promoted: it writes nothing a second time, and verifies again."
    }
  }

  # A task's outcome comes back by its exit code; what it found by lines of its log that begin with
  # a word and the run's id. The image holds no AWS SDK, and its tasks no AWS credentials.
  stage_steps = {
    for stage, it in local.stages : stage => concat(
      [
        {
          name        = "${stage}Start"
          action      = "aws:executeAwsApi"
          description = "Starts ${it.program} as a task. If it fails: ${it.left}"
          inputs = {
            Service        = "ecs"
            Api            = "RunTask"
            cluster        = var.task.cluster
            taskDefinition = var.task.definition
            launchType     = "FARGATE"
            startedBy      = local.run
            networkConfiguration = {
              awsvpcConfiguration = {
                subnets        = var.task.subnet_ids
                securityGroups = [var.task.security_group_id]
                assignPublicIp = "DISABLED"
              }
            }
            overrides = {
              containerOverrides = [{
                name    = var.task.container
                command = ["node", "${local.program}/${it.program}"]
                environment = [
                  for name, value in merge({ FAILOVER_RUN = local.run }, it.environment) : { name = name, value = value }
                ]
              }]
            }
          }
          outputs  = [{ Name = "Task", Selector = "$.tasks[0].taskArn", Type = "String" }]
          nextStep = "${stage}End"
        },
        {
          name           = "${stage}End"
          action         = "aws:waitForAwsResourceProperty"
          description    = "Waits for the end of the task. If it fails: ${it.left}"
          timeoutSeconds = it.minutes * 60
          inputs = {
            Service          = "ecs"
            Api              = "DescribeTasks"
            cluster          = var.task.cluster
            tasks            = ["{{ ${stage}Start.Task }}"]
            PropertySelector = "$.tasks[0].lastStatus"
            DesiredValues    = ["STOPPED"]
          }
          nextStep = "${stage}Code"
        },
        {
          name        = "${stage}Code"
          action      = "aws:assertAwsResourceProperty"
          description = "Goes on with exit code ${join(" or ", it.codes)} only. If it fails: ${it.left}"
          inputs = {
            Service          = "ecs"
            Api              = "DescribeTasks"
            cluster          = var.task.cluster
            tasks            = ["{{ ${stage}Start.Task }}"]
            PropertySelector = "$.tasks[0].containers[0].exitCode"
            DesiredValues    = it.codes
          }
          nextStep = "${stage}Printed"
        },
        {
          name           = "${stage}Printed"
          action         = "aws:waitForAwsResourceProperty"
          description    = "Waits until the task's last line can be read. If it fails: ${it.left}"
          timeoutSeconds = 300
          inputs = {
            Service          = "logs"
            Api              = "FilterLogEvents"
            logGroupName     = var.task.log_group
            filterPattern    = "\"highwater-end ${local.run} ${stage}\""
            PropertySelector = "$.events[0].message"
            DesiredValues    = [for code in it.codes : "highwater-end ${local.run} ${stage} ${code}"]
          }
          nextStep = "${stage}Summary"
        },
        {
          name        = "${stage}Summary"
          action      = "aws:executeAwsApi"
          description = "Reads what the task says in one line. If it fails: ${it.left}"
          inputs = {
            Service       = "logs"
            Api           = "FilterLogEvents"
            logGroupName  = var.task.log_group
            filterPattern = "\"highwater-summary ${local.run} ${stage}\""
          }
          outputs = [{ Name = "Text", Selector = "$.events[0].message", Type = "String" }]
          # The last one ends the automation.
          nextStep = stage == "preview" ? "previewReport" : it.next
          isEnd    = it.next == null ? true : null
        },
      ],
      stage == "preview" ? [
        {
          name        = "previewReport"
          action      = "aws:executeAwsApi"
          description = "Reads the report that is to be approved. If it fails: ${it.left}"
          inputs = {
            Service       = "logs"
            Api           = "FilterLogEvents"
            logGroupName  = var.task.log_group
            filterPattern = "\"highwater-report ${local.run} preview\""
          }
          outputs  = [{ Name = "Line", Selector = "$.events[0].message", Type = "String" }]
          nextStep = it.next
        },
      ] : [],
    )
  }

  approve = {
    action         = "aws:approve"
    timeoutSeconds = var.approval.hours * 3600
    onFailure      = "Abort"
  }
  approvers = { NotificationArn = var.approval.topic_arn, MinRequiredApprovals = var.approval.minimum, Approvers = var.approval.approvers }

  instance = { Service = "rds", Api = "DescribeDBInstances", DBInstanceIdentifier = var.database.identifier }

  begin = [
    {
      name        = "begin"
      action      = "aws:branch"
      description = "A new failover, or the rest of one that has promoted. If it fails: nothing has been changed."
      inputs = {
        Choices = [{ Variable = "{{ GoOnWith }}", StringEquals = "none", NextStep = "previewStart" }]
        Default = "goOn"
      }
    },
    {
      name        = "goOn"
      action      = "aws:updateVariable"
      description = "Goes on with the report of an earlier run, after its promotion. If it fails: nothing has been changed."
      inputs      = { Name = "variable:Reported", Value = "{{ GoOnWith }}" }
      nextStep    = "fencedReportRead"
    },
  ]

  approval_and_fence = [
    merge(local.approve, {
      name        = "approve"
      description = "Waits for a person. If it is rejected or not answered in time, nothing was changed; start again when you want to."
      inputs = merge(local.approvers, {
        Message = "Failover of ${var.name}: promote ${var.node}, after {{ OldPrimary }} is fenced ({{ Fence }}). {{ previewSummary.Text }} ${local.log}"
      })
      nextStep = "fenceHow"
    }),
    {
      name        = "fenceHow"
      action      = "aws:branch"
      description = "Cut off by this document, or off by the operator's word. If it fails: nothing has been changed."
      inputs = {
        Choices = [{ Variable = "{{ Fence }}", StringEquals = "off-by-my-word", NextStep = "settle" }]
        Default = "fence"
      }
    },
    {
      name           = "fence"
      action         = "aws:executeScript"
      description    = "Puts an ACL that allows nothing on the old primary's subnets. If it fails: some of its subnets may be cut off, and no node is promoted. Start again. If its region's API does not answer: make sure in another way that it is off and stays off, then start again with Fence off-by-my-word. Gateways there that are not cut off go on committing, and all of that will be lost."
      timeoutSeconds = 600
      inputs = {
        Runtime      = "python3.11"
        Handler      = "fence"
        Script       = file("${path.module}/../fence.py")
        InputPayload = { node = "{{ OldPrimary }}", fences = var.fences }
      }
      outputs  = [{ Name = "Before", Selector = "$.Payload.before", Type = "String" }]
      nextStep = "settle"
    },
    {
      name        = "settle"
      action      = "aws:sleep"
      description = "Waits until log that is on its way to the replicas has arrived. If it fails: the old primary is cut off and no node is promoted; start again."
      inputs      = { Duration = "PT60S" }
      nextStep    = "fencedStart"
    },
  ]

  decide = [
    {
      name        = "fencedMore"
      action      = "aws:executeAwsApi"
      description = "Reads whether it would lose more than was approved. If it fails: ${local.stages.fenced.left}"
      inputs      = { Service = "ecs", Api = "DescribeTasks", cluster = var.task.cluster, tasks = ["{{ fencedStart.Task }}"] }
      outputs     = [{ Name = "Code", Selector = "$.tasks[0].containers[0].exitCode", Type = "Integer" }]
      nextStep    = "fencedWhich"
    },
    {
      name        = "fencedWhich"
      action      = "aws:branch"
      description = "As approved: goes on. More: asks again. If it fails: ${local.stages.fenced.left}"
      inputs = {
        Choices = [{ Variable = "{{ fencedMore.Code }}", NumericEquals = 22, NextStep = "approveMore" }]
        Default = "promotable"
      }
    },
    merge(local.approve, {
      name        = "approveMore"
      description = "Waits for a person again. If it is rejected: the old primary is cut off and no node is promoted. Lift the fence, or bring nodes back and start again."
      inputs = merge(local.approvers, {
        Message = "Failover of ${var.name}: {{ OldPrimary }} is fenced, and promoting ${var.node} would lose more than was approved. {{ fencedSummary.Text }} ${local.log}"
      })
      nextStep = "promotable"
    }),
  ]

  promote = [
    {
      name           = "promotable"
      action         = "aws:waitForAwsResourceProperty"
      description    = "RDS promotes no instance that is being backed up. If it fails: promotion is tried all the same."
      timeoutSeconds = 900
      onFailure      = "Continue"
      isCritical     = false
      inputs         = merge(local.instance, { PropertySelector = "$.DBInstances[0].DBInstanceStatus", DesiredValues = ["available"] })
      nextStep       = "promote"
    },
    {
      name        = "promote"
      action      = "aws:executeAwsApi"
      description = "Promotes ${var.node}, which the report names. If it fails: the old primary is cut off; look whether ${var.database.identifier} is a replica still. If it is: start again. If not: start again with GoOnWith set to this run's id."
      inputs = {
        Service               = "rds"
        Api                   = "PromoteReadReplica"
        DBInstanceIdentifier  = var.database.identifier
        BackupRetentionPeriod = var.database.retention_days
        PreferredBackupWindow = var.database.window
      }
      nextStep = "promoted"
    },
    {
      name           = "promoted"
      action         = "aws:waitForAwsResourceProperty"
      description    = "Waits for RDS; the next task asks the database itself. If it fails: that task is tried all the same."
      timeoutSeconds = 3600
      onFailure      = "Continue"
      isCritical     = false
      inputs         = merge(local.instance, { PropertySelector = "$.DBInstances[0].DBInstanceStatus", DesiredValues = ["available"] })
      nextStep       = "reported"
    },
    {
      name        = "reported"
      action      = "aws:updateVariable"
      description = "The command is written by the report of this run. If it fails: ${local.stages.authorize.left}"
      inputs      = { Name = "variable:Reported", Value = local.run }
      nextStep    = "fencedReportRead"
    },
    {
      name        = "fencedReportRead"
      action      = "aws:executeAwsApi"
      description = "Reads the report that was made after the fence. If it fails: ${local.stages.authorize.left}"
      inputs = {
        Service       = "logs"
        Api           = "FilterLogEvents"
        logGroupName  = var.task.log_group
        filterPattern = "\"highwater-report {{ variable:Reported }} fenced\""
      }
      outputs  = [{ Name = "Line", Selector = "$.events[0].message", Type = "String" }]
      nextStep = "authorizeStart"
    },
  ]

  steps = concat(
    local.begin,
    local.stage_steps.preview,
    local.approval_and_fence,
    local.stage_steps.fenced,
    local.decide,
    local.promote,
    local.stage_steps.authorize,
    local.stage_steps.verify,
  )

  document = {
    schemaVersion = "0.3"
    description   = "Fails ${var.name} over to ${var.node}: previews, waits for approval, fences the old primary, promotes the node that the trackers name, writes the operator's command, and verifies. docs/deploy-aws.md has every step by hand."
    assumeRole    = var.role_arn
    parameters = {
      OldPrimary = {
        type          = "String"
        description   = "The node that is the primary, or was."
        allowedValues = sort(keys(var.fences))
      }
      Fence = {
        type          = "String"
        default       = "cut-off"
        description   = "cut-off: this document cuts the old primary's subnets off. off-by-my-word: you have made sure in another way that it is off and stays off; say so only when its region's API does not answer."
        allowedValues = ["cut-off", "off-by-my-word"]
      }
      AcceptLoss = {
        type          = "String"
        default       = "no"
        description   = "yes: go on although too few nodes answer, or a level's promise is broken by it."
        allowedValues = ["no", "yes"]
      }
      GoOnWith = {
        type           = "String"
        default        = "none"
        description    = "Id of the run that has promoted the node and failed after that: what is left of it is done. none: a new failover."
        allowedPattern = "^(none|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
      }
    }
    variables = {
      Reported = { type = "String", default = "none" }
    }
    # Without what is null: a step has a next one, or is the end.
    mainSteps = [for step in local.steps : { for key, value in step : key => value if value != null }]
    outputs   = ["previewSummary.Text", "fencedSummary.Text", "authorizeSummary.Text", "verifySummary.Text"]
  }
}
