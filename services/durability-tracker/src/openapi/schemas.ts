// The named schemas of the tracker's document.
import * as protocol from "@highwater/protocol";
import { Schemas } from "@highwater/service";
import * as failover from "../failover/wire.ts";

const NAMED = {
  Announcement: protocol.Announcement,
  AnnouncementBatch: protocol.AnnouncementBatch,
  CandidatePreview: failover.CandidatePreview,
  CreatedWebhook: protocol.CreatedWebhook,
  DeliveryAttempt: protocol.DeliveryAttempt,
  DeliveryDetails: protocol.DeliveryDetails,
  DeliveryList: protocol.DeliveryList,
  DeliveryStatus: protocol.DeliveryStatus,
  DurabilityEvent: protocol.DurabilityEvent,
  EpochRecord: protocol.EpochRecord,
  EventCursor: protocol.EventCursor,
  EventPage: protocol.EventPage,
  ExposureReport: protocol.ExposureReport,
  FailoverPreview: failover.FailoverPreview,
  FailoverPreviewRequest: failover.FailoverPreviewRequest,
  Level: protocol.LevelName,
  Loss: protocol.Loss,
  LossesRequest: protocol.LossesRequest,
  LossesResponse: protocol.LossesResponse,
  Marks: protocol.Marks,
  MarksResponse: protocol.MarksResponse,
  Metadata: protocol.Metadata,
  NewWebhook: protocol.NewWebhook,
  Offset: protocol.OffsetText,
  Position: protocol.Position,
  Problem: protocol.ProblemBody,
  RecoverAnswer: protocol.RecoverAnswer,
  RecoverRequest: protocol.RecoverRequest,
  RefusedToken: protocol.RefusedToken,
  RotateRequest: protocol.RotateRequest,
  TokenVerdict: protocol.TokenVerdict,
  Uuid: protocol.Uuid,
  Verdict: protocol.Verdict,
  VerdictsRequest: protocol.VerdictsRequest,
  VerdictsResponse: protocol.VerdictsResponse,
  Webhook: protocol.Webhook,
  WebhookChange: protocol.WebhookChange,
  WebhookDelivery: protocol.WebhookDelivery,
  WebhookList: protocol.WebhookList,
  WebhookSecret: protocol.WebhookSecret,
};

export const SCHEMAS = new Schemas(NAMED);
